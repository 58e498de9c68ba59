use serde::{Deserialize, Serialize};

use crate::{Budget, DEFAULT_STEPS};

const MILLION: u64 = 1_000_000;
const MEBIBYTE: usize = 1 << 20;
const MEMORY: u64 = 192;

/// Limits on the templates of one blueprint, or of one chart. The limits of the engines are derived
/// from these, so that an operator has two numbers to set, and the command gives the same results
/// with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "arguments", derive(clap::Args), group(skip), command(next_help_heading = "Limits"))]
pub struct TemplateLimits {
    /// Millions of steps that all templates of one blueprint may take together; those of one chart
    /// may take four times as many
    #[cfg_attr(feature = "arguments", arg(long, env = "GROUNDWORK_TEMPLATE_WORK", default_value_t = DEFAULT_STEPS / MILLION, value_name = "MILLIONS", value_parser = clap::value_parser!(u64).range(1..=1_000_000)))]
    pub template_work: u64,

    /// Memory in MiB that the values of one template may hold at a time, of which lists and maps of
    /// a spiff template may take two thirds
    #[cfg_attr(feature = "arguments", arg(long, env = "GROUNDWORK_TEMPLATE_MEMORY", default_value_t = MEMORY, value_name = "MEBIBYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 20)))]
    pub template_memory: u64,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self { template_work: DEFAULT_STEPS / MILLION, template_memory: MEMORY }
    }
}

impl TemplateLimits {
    /// Returns the steps that all templates of one blueprint may take together.
    pub fn steps(self) -> u64 {
        self.template_work.saturating_mul(MILLION)
    }

    /// Returns the steps that all templates of one chart may take together.
    pub fn steps_of_chart(self) -> u64 {
        self.steps().saturating_mul(4)
    }

    /// Returns the bytes of a Go template's live values.
    pub fn memory_of_go(self) -> usize {
        usize::try_from(self.template_memory).unwrap_or(usize::MAX).saturating_mul(MEBIBYTE)
    }

    /// Returns the bytes of a spiff template's live lists and maps.
    pub fn memory_of_spiff(self) -> usize {
        self.memory_of_go() / 3 * 2
    }

    /// Creates a budget for all templates together.
    pub fn budget(self) -> Budget {
        Budget::new(self.steps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_engines() {
        let limits = TemplateLimits { template_work: 8, template_memory: 3 };
        assert_eq!((limits.steps(), limits.steps_of_chart()), (8_000_000, 32_000_000));
        assert_eq!((limits.memory_of_go(), limits.memory_of_spiff()), (3 << 20, 2 << 20));
        assert_eq!(TemplateLimits::default().budget().spend(DEFAULT_STEPS), Ok(()));
        assert!(limits.budget().spend(8_000_001).is_err());
        let endless = TemplateLimits { template_work: u64::MAX, template_memory: u64::MAX };
        assert_eq!((endless.steps_of_chart(), endless.memory_of_go()), (u64::MAX, usize::MAX));
    }
}
