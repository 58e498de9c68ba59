//! The service answers what its workers ask. A question is content of strangers, too: it names what the resolver may give to the
//! Installation of the job, and the resolver says whether it does.

use futures::future::BoxFuture;
use groundwork_component::{Access, RepositoryError};
use groundwork_sandbox::{Host, pack, unpack};

use super::repositories::{Answer, Question};
use crate::components::RemoteRepositories;

impl Host for RemoteRepositories {
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let (answer, bytes) = match unpack(&question) {
                Ok((question, _)) => answer(self, question).await,
                Err(error) => failed(String::new(), error.to_string()),
            };
            pack(&answer, &bytes).unwrap_or_default()
        })
    }
}

async fn answer(repositories: &RemoteRepositories, question: Question) -> (Answer, Vec<u8>) {
    let Question { context, name, version, access } = question;
    let found = match access {
        None => {
            let descriptor = repositories.descriptor(context, &name, &version).await;
            descriptor.map(|found| found.map(|bytes| (String::new(), bytes)))
        }
        Some(access) => match Access::parse(&access) {
            Ok(access) => repositories.content(context, &name, &version, &access).await.map(Some),
            Err(error) => return failed(format!("{name}:{version}"), error.to_string()),
        },
    };
    match found {
        Ok(Some((media_type, bytes))) => (Answer::Found { media_type }, bytes),
        Ok(None) => (Answer::Absent, Vec::new()),
        Err(error) => (Answer::Failed(error), Vec::new()),
    }
}

fn failed(address: String, cause: String) -> (Answer, Vec<u8>) {
    (Answer::Failed(RepositoryError::Unreadable { address, cause }), Vec::new())
}
