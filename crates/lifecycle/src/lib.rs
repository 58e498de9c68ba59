//! Names, conditions and generated objects of Installations, Executions and DeployItems.
