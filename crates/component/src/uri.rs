//! `cd://` URIs: paths from one component version to another or to a resource (`components.md`
//! 4.8).
//!
//! ```text
//! cd://componentReferences/db/resources/schema#/definitions/size
//!      └── references, in order ┘└─ resource ──┘└─ fragment ───┘
//! ```

use crate::descriptor::{ComponentReference, DescriptorError, Resource};
use crate::resolve::{ComponentVersion, ResolveError};

const SCHEME: &str = "cd";
/// Longest URI in bytes.
const LONGEST: usize = 2083;

/// Parsed URI. Its syntax alone decides if it denotes a component or a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdUri {
    /// Local names of component references, outermost first.
    references: Vec<String>,
    resource: Option<String>,
    fragment: String,
}

/// Error of a text that is not a `cd://` URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CdUriError {
    #[error("too long uri, got {0} but expected max {LONGEST}")]
    TooLong(usize),
    #[error("scheme must be {SCHEME} but given {0}")]
    Scheme(String),
    #[error("invalid percent sign in {0:?}: two hexadecimal digits must follow")]
    Escape(String),
    #[error("even number of path arguments expected")]
    Parity,
    #[error("unknown keyword {0}")]
    Keyword(String),
    #[error("the selector seems to contain more path segments after a resource")]
    AfterResource,
}

/// Error of a URI that cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    #[error("component reference {name} cannot be found in component {component}")]
    Reference { name: String, component: String },
    #[error("component {name} cannot be found: {source}")]
    Component { name: String, source: Box<ResolveError> },
    #[error("local resource {name} cannot be found: {source}")]
    Resource { name: String, source: DescriptorError },
    #[error("the selector seems to target a component descriptor but a resource is requested")]
    NoResource,
}

impl CdUri {
    /// Parses a URI.
    ///
    /// # Errors
    ///
    /// See [`CdUriError`].
    pub fn parse(text: &str) -> Result<Self, CdUriError> {
        if text.len() > LONGEST {
            return Err(CdUriError::TooLong(text.len()));
        }
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(before);
        if scheme != SCHEME {
            return Err(CdUriError::Scheme(scheme.to_owned()));
        }
        let rest = rest.split('?').next().unwrap_or_default();
        let path = clean_path(rest)?;
        let mut uri = Self { references: Vec::new(), resource: None, fragment: unescape(fragment)? };
        let segments: Vec<&str> = path.split('/').collect();
        let (pairs, odd) = segments.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(CdUriError::Parity);
        }
        for [keyword, value] in pairs {
            uri.push(keyword, value)?;
        }
        Ok(uri)
    }

    fn push(&mut self, keyword: &str, value: &str) -> Result<(), CdUriError> {
        if self.resource.is_some() {
            return Err(CdUriError::AfterResource);
        }
        match keyword {
            "componentReferences" => self.references.push(value.to_owned()),
            "resources" => self.resource = Some(value.to_owned()),
            other => return Err(CdUriError::Keyword(other.to_owned())),
        }
        Ok(())
    }

    /// Returns the local names of the component references, outermost first.
    pub fn reference_names(&self) -> &[String] {
        &self.references
    }

    /// Returns the name of the resource, if the URI denotes one.
    pub fn resource_name(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns the text after `#`, which only schemas interpret.
    pub fn fragment(&self) -> &str {
        &self.fragment
    }

    /// Returns the component version that the URI denotes, or that owns the denoted resource.
    ///
    /// `follow` resolves a reference to a version and must apply overwrites, as `Resolver::follow`
    /// does.
    ///
    /// # Errors
    ///
    /// See [`SelectError`].
    pub fn component(
        &self,
        start: &ComponentVersion,
        follow: impl Fn(&ComponentReference) -> Result<ComponentVersion, ResolveError>,
    ) -> Result<ComponentVersion, SelectError> {
        let mut here = start.clone();
        for name in &self.references {
            let reference = here.descriptor.reference(name).ok_or_else(|| SelectError::Reference {
                name: name.clone(),
                component: format!("{}:{}", here.descriptor.name(), here.descriptor.version()),
            })?;
            here = follow(&reference)
                .map_err(|source| SelectError::Component { name: name.clone(), source: Box::new(source) })?;
        }
        Ok(here)
    }

    /// Returns the resource that the URI denotes, with the component version that owns it.
    ///
    /// # Errors
    ///
    /// Fails as [`CdUri::component`] does, and if the URI denotes a component or the resource does
    /// not exist.
    pub fn resource(
        &self,
        start: &ComponentVersion,
        follow: impl Fn(&ComponentReference) -> Result<ComponentVersion, ResolveError>,
    ) -> Result<(ComponentVersion, Resource), SelectError> {
        let owner = self.component(start, follow)?;
        let name = self.resource.as_ref().ok_or(SelectError::NoResource)?;
        let resource = owner
            .descriptor
            .resource(name)
            .map_err(|source| SelectError::Resource { name: name.clone(), source })?;
        Ok((owner, resource))
    }
}

/// Splits the scheme from the text after its colon; the scheme is empty if there is none.
fn split_scheme(text: &str) -> (&str, &str) {
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    match text.split_once(':') {
        Some((scheme, rest)) if scheme.bytes().all(in_scheme) => (scheme, rest),
        _ => ("", text),
    }
}

/// Joins host and path to one file path without `.`, `..` and empty segments.
///
/// The first keyword is in the place of a host, so it is neither decoded nor converted to lower
/// case.
fn clean_path(rest: &str) -> Result<String, CdUriError> {
    let (host, path) = match rest.strip_prefix("//") {
        Some(authority) => authority.split_at(authority.find('/').unwrap_or(authority.len())),
        None if rest.starts_with('/') => ("", rest),
        None => ("", ""),
    };
    let path = format!("{host}{}", unescape(path)?);
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => match segments.last() {
                Some(&last) if last != ".." => drop(segments.pop()),
                _ if root.is_empty() => segments.push(segment),
                _ => {}
            },
            name => segments.push(name),
        }
    }
    Ok(format!("{root}{}", segments.join("/")))
}

fn unescape(text: &str) -> Result<String, CdUriError> {
    let wrong = || CdUriError::Escape(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return Err(wrong()) };
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (high, low) = digit(*high).zip(digit(*low)).ok_or_else(wrong)?;
        bytes.push(high << 4 | low);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
