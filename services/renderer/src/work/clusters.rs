//! Issuer of kubeconfigs inside a worker, which asks its service.

use groundwork_blueprint::{IssuedKubeconfig, KubeconfigIssuer, KubeconfigRequest};
use groundwork_sandbox::{Connection, pack, unpack};
use serde::{Deserialize, Serialize};

use super::Question;

/// Answer of the service; the kubeconfig follows after it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ClusterAnswer {
    Issued { expiration: i64 },
    Failed(String),
}

pub(super) struct AskedClusters(pub(super) Connection);

impl KubeconfigIssuer for AskedClusters {
    fn issue(&self, request: &KubeconfigRequest) -> Result<IssuedKubeconfig, String> {
        let question =
            pack(&Question::Kubeconfig(request.clone()), &[]).map_err(|error| error.to_string())?;
        let message = self.0.ask(&question).map_err(|error| error.to_string())?;
        match unpack(&message).map_err(|error| error.to_string())? {
            (ClusterAnswer::Issued { expiration }, body) => {
                Ok(IssuedKubeconfig { kubeconfig: body.to_vec(), expiration })
            }
            (ClusterAnswer::Failed(problem), _) => Err(problem),
        }
    }
}
