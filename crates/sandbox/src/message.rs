//! Format of messages between a service and its workers: the length of the head, the head in JSON,
//! and bytes that are passed on unchanged.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ExchangeError, FormError};
use crate::pool::{Host, Pool};
use crate::worker::Connection;

const LENGTH: usize = size_of::<u32>();

/// Returns a message of this head and body.
///
/// # Errors
///
/// The head cannot be written as JSON, or is larger than 4 GiB.
pub fn pack(head: &impl Serialize, body: &[u8]) -> Result<Vec<u8>, FormError> {
    let mut message = vec![0; LENGTH];
    serde_json::to_writer(&mut message, head).map_err(|_| FormError)?;
    let length = u32::try_from(message.len() - LENGTH).map_err(|_| FormError)?;
    message[..LENGTH].copy_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    Ok(message)
}

/// Returns head and body of a message.
///
/// # Errors
///
/// The message is truncated, the head has another form, or it is nested deeper than the JSON
/// decoder allows.
pub fn unpack<T: DeserializeOwned>(message: &[u8]) -> Result<(T, &[u8]), FormError> {
    let (length, rest) = message.split_first_chunk::<LENGTH>().ok_or(FormError)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| FormError)?;
    let (head, body) = rest.split_at_checked(length).ok_or(FormError)?;
    // The decoder's error quotes the content, so drop it.
    Ok((serde_json::from_slice(head).map_err(|_| FormError)?, body))
}

/// Returns a worker's answer to a task; empty if the task could not be read, or the answer cannot
/// be encoded.
pub fn reply(head: Option<&impl Serialize>, body: &[u8]) -> Vec<u8> {
    let nothing = || pack(&None::<()>, &[]).unwrap_or_default();
    let Some(head) = head else { return nothing() };
    pack(&Some(head), body).unwrap_or_else(|_| nothing())
}

impl Pool {
    /// Sends a task of a head and a body to a worker, and returns head and body of the answer; see
    /// [`Pool::run`].
    ///
    /// # Errors
    ///
    /// See [`ExchangeError`].
    pub async fn exchange<T: DeserializeOwned>(
        &self,
        tenant: &str,
        head: &(impl Serialize + Sync),
        body: &[u8],
        host: &dyn Host,
    ) -> Result<(T, Vec<u8>), ExchangeError> {
        let task = pack(head, body).map_err(|_| ExchangeError::Task)?;
        let answer = self.run(tenant, &task, host).await?;
        let (head, body) = unpack::<Option<T>>(&answer).map_err(|_| ExchangeError::Answer)?;
        Ok((head.ok_or(ExchangeError::Task)?, body.to_vec()))
    }
}

impl Connection {
    /// Serves the worker's side of [`Pool::exchange`]: `work` gets head and body of a task, and
    /// answers with [`reply`].
    pub fn serve_exchanges<T: DeserializeOwned>(&self, mut work: impl FnMut(T, &[u8]) -> Vec<u8>) {
        self.serve(|task| match unpack(&task) {
            Ok((head, body)) => work(head, body),
            Err(FormError) => reply(None::<&()>, &[]),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_as_it_went() {
        let message = pack(&vec!["a", "b"], b"rest").unwrap();
        let (head, body): (Vec<String>, _) = unpack(&message).unwrap();
        assert_eq!((head, body), (vec!["a".to_owned(), "b".to_owned()], b"rest".as_slice()));
        for length in 0..message.len() - 4 {
            assert!(unpack::<Vec<String>>(&message[..length]).is_err());
        }
    }

    /// A value that JSON cannot represent gives an empty answer, never a part of one.
    #[test]
    fn an_answer_that_cannot_be_written_is_none() {
        let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
        assert_eq!(unpack::<Option<u8>>(&reply(Some(&unwritable), b"rest")).unwrap(), (None, b"".as_slice()));
        assert_eq!(unpack::<Option<u8>>(&reply(Some(&7), b"rest")).unwrap(), (Some(7), b"rest".as_slice()));
    }
}
