//! Values that must not be shown.
//!
//! Errors come from many layers, and some quote what they were given: a URL with a signature in its query, a header, a
//! connection string. Whoever learns a secret remembers it here, and whoever shows text to people conceals it first.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// The longest first, so that a secret that contains another is concealed whole.
static SECRETS: RwLock<BTreeSet<(std::cmp::Reverse<usize>, String)>> = RwLock::new(BTreeSet::new());

/// Shorter values would be found everywhere.
const SHORTEST: usize = 4;

/// Remembers a value as one that [`conceal`] hides, in this process.
pub fn remember(secret: &str) {
    if secret.len() < SHORTEST {
        return;
    }
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    for form in [secret.to_owned(), encoded] {
        secrets.insert((std::cmp::Reverse(form.len()), form));
    }
}

/// The text with `***` in place of every secret, as it is and as a URL spells it.
pub fn conceal(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let mut concealed = Cow::Borrowed(text);
    for (_, secret) in secrets.iter() {
        if concealed.contains(secret.as_str()) {
            concealed = Cow::Owned(concealed.replace(secret.as_str(), "***"));
        }
    }
    concealed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_in_every_spelling_and_the_longest_first() {
        remember("hunter2/&x");
        remember("hunter2");
        remember("abc");
        assert_eq!(
            conceal("key hunter2/&x, url ?k=hunter2%2F%26x, part hunter2, abc"),
            "key ***, url ?k=***, part ***, abc"
        );
    }
}
