//! Reasons of errors, as in `status.lastError.reason` (`installations.md` 1.0, 6, 7).

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines each reason once, together with the text that objects show for it.
macro_rules! reasons {
    ($($name:ident $text:literal,)*) => {
        /// Reason for the failure of an operation, or for its wait.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reason {
            $($name,)*
            /// Reason of another service, such as the resolver after a failed read.
            Foreign(Box<str>),
        }

        #[cfg(test)]
        const TEXTS: &[&str] = &[$($text,)*];

        impl Reason {
            /// Returns the text for the status.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Foreign(text) => text,
                }
            }
        }

        impl From<String> for Reason {
            fn from(text: String) -> Self {
                match &*text {
                    $($text => Self::$name,)*
                    _ => Self::Foreign(text.into()),
                }
            }
        }
    };
}

// Where Landscaper has the same reason, the text is Landscaper's.
reasons! {
    // Reasons before the rendering.
    CalculateContext "CalculateContext",
    GetContext "GetContext",
    GetComponentVersionOverwrites "GetComponentVersionOverwrites",
    InitInstallationOperation "InitInstallationOperation",
    SetupRegistries "SetupRegistries",
    ResolveBlueprint "ResolveBlueprint",
    ExtractVerifyInfo "ExtractVerifyInfo",
    VerifySignature "VerifySignature",
    ValidateInstallation "ValidateInstallation",
    Resolve "Resolve",
    ResolveLimit "ResolveLimit",

    // Reasons of the rendering.
    RenderFailed "RenderFailed",
    RenderTimeout "RenderTimeout",
    RenderLimit "RenderLimit",
    RenderingEndsProcess "RenderingEndsProcess",
    SetAside "SetAside",
    RenderImportExecutions "RenderImportExecutions",
    RenderExportExecutions "RenderExportExecutions",
    ImportsSatisfied "ImportsSatisfied",
    ConstructImports "ConstructImports",
    ConstructExports "ConstructExports",

    // Reasons of Installations.
    CreateImportsAndSubobjects "CreateImportsAndSubobjects",
    CreateOrUpdateInstallation "CreateOrUpdateInstallation",
    EnsureSubinstallations "EnsureSubinstallations",
    DanglingSubinstallation "DanglingSubinstallation",
    InstallationCreatingFailed "InstallationCreatingFailed",
    CreateOrUpdateExecution "CreateOrUpdateExecution",
    ReconcileExecution "ReconcileExecution",
    CreateDataObjects "CreateDataObjects",
    CreateTargets "CreateTargets",
    StoreState "StoreState",
    AllOrphanedSubinstallationsFailed "AllOrphanedSubinstallationsFailed",
    OrphanedSubinstsStillDeleting "OrphanedSubinstsStillDeleting",
    JobIdFinished "JobIDFinished",
    ChildrenFailed "children failed",
    CheckObservedGeneration "CheckObservedGeneration",
    CheckImportsHash "CheckImportsHash",
    CreateOrUpdateExports "CreateOrUpdateExports",
    Deleting "Deleting",
    OwnerGone "OwnerGone",
    UndeletedSubobjects "UndeletedSubobjects",

    // Reasons about siblings.
    CyclicDependencies "CyclicDependencies",
    AmbiguousPredecessors "AmbiguousPredecessors",
    AllPredecessorsFinished "AllPredecessorsFinished",
    AllPredecessorsSucceeded "AllPredecessorsSucceeded",
    SiblingImport "SiblingImport",
    SiblingDeleteError "SiblingDeleteError",

    // Reasons of Executions.
    GetDeployItems "GetDeployItems",
    CreateOrUpdateDeployItem "CreateOrUpdateDeployItem",
    CollectAndUpdateExports "collectAndUpdateExports",
    HandlePhaseProgressing "handlePhaseProgressing",
    HandlePhaseDeleting "handlePhaseDeleting",
    InterruptOperation "InterruptOperation",
    PickupTimeout "PickupTimeout",

    // Permanent errors of the API server.
    Forbidden "Forbidden",
    Refused "Refused",
    Invalid "Invalid",
    TooLarge "TooLarge",
    Terminating "Terminating",
    TooManySteps "TooManySteps",

    // Reasons of deployers.
    ProviderConfigurationInvalid "ProviderConfigurationInvalid",
    ProviderConfigurationMissing "ProviderConfigurationMissing",
    ConfigurationInvalid "ConfigurationInvalid",
    NoTargetFound "NoTargetFound",
    TargetMissing "TargetMissing",
    TargetInvalid "TargetInvalid",
    TargetCluster "TargetCluster",
    OtherCluster "OtherCluster",
    CheckCluster "CheckCluster",
    ReadClusterName "ReadClusterName",
    ForeignObject "ForeignObject",
    ProgressingTimeout "ProgressingTimeout",
    GetHelmChart "GetHelmChart",
    PrepareHelmValues "PrepareHelmValues",
    RenderHelmValues "RenderHelmValues",
    InstallRelease "installRelease",
    UpgradeRelease "upgradeRelease",
    ConstructExportFromValues "ConstructExportFromValues",
    Uninstall "Uninstall",
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user looks a reason up on the page, so the page has all of them.
    #[test]
    fn the_page_has_each_reason() {
        let page = include_str!("../../../docs/reasons.md");
        // No code sets this one: `ConstructExports` covers the failures of export executions.
        let is_listed =
            |text: &&&str| **text == "RenderExportExecutions" || page.contains(&format!("### `{text}`"));
        let missing: Vec<_> = TEXTS.iter().filter(|text| !is_listed(text)).collect();
        assert_eq!(missing, Vec::<&&str>::new());
    }

    #[test]
    fn texts_and_back() {
        for (text, reason) in [
            ("JobIDFinished", Reason::JobIdFinished),
            ("children failed", Reason::ChildrenFailed),
            ("handlePhaseDeleting", Reason::HandlePhaseDeleting),
            ("ComponentVersionNotFound", Reason::Foreign("ComponentVersionNotFound".into())),
        ] {
            assert_eq!(Reason::from(text.to_owned()), reason);
            assert_eq!(reason.as_str(), text);
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
        }
    }
}
