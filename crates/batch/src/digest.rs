//! SHA-256 digests as values. Every digest that leaves this crate is a [`Sha256Hex`]: 64 lower-case hexadecimal
//! digits in text, so that two digests are equal exactly when their texts are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;

/// A SHA-256 digest; its text is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Hex([u8; 32]);

impl Sha256Hex {
    /// The digest of `bytes`.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// A digest that was computed elsewhere, for instance while the bytes streamed by.
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The 32 bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Hex({self})")
    }
}

impl FromStr for Sha256Hex {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || Error::Digest { value: text.to_owned() };
        if !is_lower_hex(text, 64) {
            return Err(malformed());
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| malformed())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| malformed())?;
        }
        Ok(Self(digest))
    }
}

impl TryFrom<String> for Sha256Hex {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Sha256Hex> for String {
    fn from(digest: Sha256Hex) -> Self {
        digest.to_string()
    }
}

/// Whether `text` is exactly `digits` lower-case hexadecimal digits.
pub(crate) fn is_lower_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_digest_of_abc_is_the_one_in_fips_180() {
        assert_eq!(Sha256Hex::of("abc").to_string(), OF_ABC);
        assert_eq!(OF_ABC.parse::<Sha256Hex>().unwrap(), Sha256Hex::of("abc"));
    }

    #[test]
    fn a_digest_is_a_string_in_json() {
        let json = serde_json::to_string(&Sha256Hex::of("abc")).unwrap();
        assert_eq!(json, format!("\"{OF_ABC}\""));
        assert_eq!(serde_json::from_str::<Sha256Hex>(&json).unwrap(), Sha256Hex::of("abc"));
    }

    #[rstest]
    #[case::empty("")]
    #[case::short("ba78")]
    #[case::upper_case("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD")]
    #[case::not_hexadecimal("ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")]
    #[case::a_sign_is_no_digit("+a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")]
    #[case::wide_characters("é")]
    fn a_malformed_digest_is_refused(#[case] text: &str) {
        assert!(text.parse::<Sha256Hex>().is_err());
        assert!(serde_json::from_str::<Sha256Hex>(&format!("\"{text}\"")).is_err());
    }
}
