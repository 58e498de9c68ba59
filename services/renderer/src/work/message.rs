//! The form of messages between the renderer and its workers: the length of the head, the head, the rest.

use serde::Serialize;
use serde::de::DeserializeOwned;

const LENGTH: usize = size_of::<u32>();

/// A message cannot be read, or not be written.
#[derive(Debug, thiserror::Error)]
#[error("a message of another form")]
pub(super) struct FormError;

pub(super) fn pack(head: &impl Serialize, body: &[u8]) -> Result<Vec<u8>, FormError> {
    let mut message = vec![0; LENGTH];
    serde_json::to_writer(&mut message, head).map_err(|_| FormError)?;
    let length = u32::try_from(message.len() - LENGTH).map_err(|_| FormError)?;
    message[..LENGTH].copy_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    Ok(message)
}

pub(super) fn unpack<T: DeserializeOwned>(message: &[u8]) -> Result<(T, &[u8]), FormError> {
    let (length, rest) = message.split_first_chunk::<LENGTH>().ok_or(FormError)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| FormError)?;
    let (head, body) = rest.split_at_checked(length).ok_or(FormError)?;
    // The decoder's message quotes what it found.
    Ok((serde_json::from_slice(head).map_err(|_| FormError)?, body))
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
}
