//! Credentials that a catalog hands out for part of a store, and takes back after a while.

#![cfg_attr(
    not(any(feature = "aws", feature = "gcp", feature = "azure")),
    expect(dead_code, reason = "there are no remote stores")
)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tokio::sync::Mutex;

use crate::{Location, secrets};

/// Properties of a store, named as Iceberg names them: `s3.access-key-id`, for instance.
pub type Properties = BTreeMap<String, String>;

/// Properties for everything below a prefix.
#[derive(Clone, PartialEq, Eq)]
pub struct VendedProperties {
    /// Where they are good: a location, the beginning of one, or only a scheme.
    pub prefix: String,
    /// The properties, over those of the catalog file.
    pub properties: Properties,
}

impl VendedProperties {
    /// Whether what is vended for a prefix is good at a location.
    pub fn reach(prefix: &str, location: &str) -> bool {
        Location::parse(location).is_ok_and(|location| Prefix::parse(prefix).contains(&location))
    }
}

impl fmt::Debug for VendedProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.properties.keys().collect();
        f.debug_struct("VendedProperties").field("prefix", &self.prefix).field("properties", &names).finish()
    }
}

/// Whoever hands out properties: a REST catalog, for one table.
#[async_trait]
pub trait Vendor: fmt::Debug + Send + Sync {
    /// Fresh properties.
    ///
    /// # Errors
    ///
    /// When the vendor cannot be asked.
    async fn vend(&self) -> Result<Vec<VendedProperties>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Renewed this long before they expire, or after half of their life where that is shorter.
const AHEAD: Duration = Duration::from_secs(300);

/// The life of temporary credentials whose end is not said: the shortest that AWS gives.
const UNSAID: Duration = Duration::from_secs(900);

/// What was vended for one prefix, as it is now.
pub(crate) struct Grant {
    prefix: Prefix,
    /// Who is asked for more: the one who gave the last.
    vendor: RwLock<Arc<dyn Vendor>>,
    current: RwLock<Current>,
    renewing: Mutex<()>,
}

#[derive(Clone)]
struct Current {
    properties: Arc<Properties>,
    renew_at: Option<SystemTime>,
}

impl Grant {
    pub(crate) fn new(vended: VendedProperties, vendor: Arc<dyn Vendor>) -> Self {
        let prefix = Prefix::parse(&vended.prefix);
        Self {
            prefix,
            vendor: RwLock::new(vendor),
            current: RwLock::new(Current::of(vended.properties)),
            renewing: Mutex::new(()),
        }
    }

    pub(crate) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Whether other properties lead to the same store: they differ in credentials at most.
    pub(crate) fn reaches(&self, properties: &Properties) -> bool {
        let open = |properties: &Properties| -> Vec<(String, Option<String>)> {
            let secret =
                |name: &str| is_secret(name) || name.contains("-expires-at") || name.ends_with("access-key-id");
            properties.iter().map(|(name, value)| (name.clone(), (!secret(name)).then(|| value.clone()))).collect()
        };
        open(properties) == open(&self.properties())
    }

    pub(crate) fn replace_vendor(&self, vendor: &Arc<dyn Vendor>) {
        *self.vendor.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(vendor);
    }

    pub(crate) fn replace(&self, properties: Properties) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current::of(properties);
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn properties(&self) -> Arc<Properties> {
        self.current().properties
    }

    /// The properties with credentials that are good for a while, renewed if need be.
    pub(crate) async fn fresh(&self) -> Result<Arc<Properties>, object_store::Error> {
        let due = |current: &Current| current.renew_at.is_some_and(|renew_at| now() >= renew_at);
        let current = self.current();
        if !due(&current) {
            return Ok(current.properties);
        }
        let _one = self.renewing.lock().await;
        let current = self.current();
        if !due(&current) {
            return Ok(current.properties);
        }
        let vendor = Arc::clone(&self.vendor.read().unwrap_or_else(PoisonError::into_inner));
        let vended = match vendor.vend().await {
            Ok(vended) => vended,
            // They may still be good.
            Err(_) if !current.is_expired() => return Ok(current.properties),
            Err(source) => return Err(object_store::Error::Generic { store: "vended credentials", source }),
        };
        let ours = vended.into_iter().find(|vended| Prefix::parse(&vended.prefix) == self.prefix);
        match ours {
            Some(vended) => self.replace(vended.properties),
            None if !current.is_expired() => return Ok(current.properties),
            None => {
                let source = "the catalog does not vend credentials for it any more".into();
                return Err(object_store::Error::Generic { store: "vended credentials", source });
            }
        }
        Ok(self.current().properties)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Current {
    fn of(properties: Properties) -> Self {
        for (name, value) in &properties {
            if is_secret(name) {
                secrets::remember(value);
            }
        }
        let temporary = properties.keys().any(|name| is_temporary(name));
        let life = match expires_at(&properties) {
            Some(expires_at) => Some(expires_at.duration_since(now()).unwrap_or_default()),
            None => temporary.then_some(UNSAID),
        };
        let renew_at = life.map(|life| now() + life.saturating_sub(AHEAD).max(life / 2));
        Self { properties: Arc::new(properties), renew_at }
    }

    fn is_expired(&self) -> bool {
        expires_at(&self.properties).is_some_and(|expires_at| now() >= expires_at)
    }
}

fn is_temporary(name: &str) -> bool {
    name == "s3.session-token" || name == "gcs.oauth2.token" || name.starts_with("adls.sas-token")
}

/// Whether a property of a store must not be shown. The id of an access key may be: it says who, and proves nothing.
pub fn is_secret(name: &str) -> bool {
    is_temporary(name) && !name.contains("-expires-at")
        || matches!(
            name,
            "s3.secret-access-key"
                | "client.secret-access-key"
                | "client.session-token"
                | "gcs.credentials-json"
                | "adls.account-key"
                | "adls.client-secret"
                | "adls.connection-string"
                | "adls.token"
        )
}

fn expires_at(properties: &Properties) -> Option<SystemTime> {
    let millis = properties.iter().filter(|(name, _)| {
        name.as_str() == "s3.session-token-expires-at-ms"
            || name.as_str() == "gcs.oauth2.token-expires-at"
            || name.starts_with("adls.sas-token-expires-at-ms")
    });
    let soonest = millis.filter_map(|(_, value)| value.trim().parse().ok()).min()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(soonest))
}

#[expect(clippy::disallowed_methods, reason = "the end of a credential's life is a time of day, and decides no result")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// The beginning of locations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    family: String,
    /// Authority and key, without a trailing slash; empty for a whole scheme.
    rest: String,
}

impl Prefix {
    fn parse(prefix: &str) -> Self {
        let (scheme, rest) = prefix.split_once(':').unwrap_or((prefix, ""));
        match Location::parse(prefix) {
            Ok(location) => Self { family: location.family().to_owned(), rest: rest_of(&location) },
            Err(_) => {
                let family = Location::parse(&format!("{scheme}://any/")).map(|location| location.family());
                let family = family.map_or_else(|_| scheme.to_owned(), str::to_owned);
                Self { family, rest: rest.trim_matches('/').to_owned() }
            }
        }
    }

    pub(crate) fn contains(&self, location: &Location) -> bool {
        self.family == location.family() && rest_of(location).starts_with(&self.rest)
    }

    /// Of several that contain a location, the longest counts.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }
}

fn rest_of(location: &Location) -> String {
    format!("{}/{}", location.authority(), location.key()).trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("s3://b/w", "s3://b/w/t/a", true)]
    #[case("s3://b/w/", "s3a://b/w/t/a", true)]
    #[case("s3a://b/w/t", "s3://b/w/t", true)]
    #[case("s3://b", "s3://b/x", true)]
    #[case("s3", "s3://any/x", true)]
    #[case("s3://", "s3n://any/x", true)]
    #[case("s3://b/w", "s3://c/w/t", false)]
    #[case("gs", "s3://b/w", false)]
    #[case("gs://b/w", "s3://b/w", false)]
    fn prefixes_are_compared_in_one_spelling(#[case] prefix: &str, #[case] location: &str, #[case] contained: bool) {
        assert_eq!(Prefix::parse(prefix).contains(&Location::parse(location).unwrap()), contained);
    }

    /// Gives a new token at each call, each good for `life`.
    #[derive(Debug)]
    struct Counting {
        calls: AtomicU64,
        life: Duration,
    }

    fn vended(number: u64, life: Duration) -> VendedProperties {
        let end = (now() + life).duration_since(UNIX_EPOCH).unwrap().as_millis();
        let properties = [
            ("s3.session-token".to_owned(), format!("token-{number}")),
            ("s3.session-token-expires-at-ms".to_owned(), end.to_string()),
        ];
        VendedProperties { prefix: "s3://b/t".to_owned(), properties: Properties::from(properties) }
    }

    #[async_trait]
    impl Vendor for Counting {
        async fn vend(&self) -> Result<Vec<VendedProperties>, Box<dyn std::error::Error + Send + Sync>> {
            match self.calls.fetch_add(1, Ordering::Relaxed) + 1 {
                1 => Err("the first call fails".into()),
                call => Ok(vec![vended(call, self.life)]),
            }
        }
    }

    #[tokio::test]
    async fn credentials_are_renewed_before_they_expire_and_kept_while_they_are_good() {
        let vendor = Arc::new(Counting { calls: AtomicU64::new(0), life: Duration::from_secs(3_600) });
        let calls = || vendor.calls.load(Ordering::Relaxed);
        let token = async |grant: &Grant| grant.fresh().await.map(|fresh| fresh["s3.session-token"].clone());

        let long = Grant::new(vended(0, Duration::from_secs(3_600)), vendor.clone());
        assert_eq!((token(&long).await.unwrap(), calls()), ("token-0".to_owned(), 0));

        let short = Grant::new(vended(0, Duration::from_secs(2)), vendor.clone());
        assert_eq!((token(&short).await.unwrap(), calls()), ("token-0".to_owned(), 0));
        #[expect(clippy::disallowed_methods, reason = "credentials live by the clock of the day")]
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        // Half of its life is over; the vendor fails, and the old one is good for 900 ms more.
        assert_eq!((token(&short).await.unwrap(), calls()), ("token-0".to_owned(), 1));
        assert_eq!((token(&short).await.unwrap(), calls()), ("token-2".to_owned(), 2));
        assert_eq!((token(&short).await.unwrap(), calls()), ("token-2".to_owned(), 2));
    }

    #[tokio::test]
    async fn expired_credentials_are_never_used() {
        let vendor = Arc::new(Counting { calls: AtomicU64::new(0), life: Duration::from_secs(3_600) });
        let grant = Grant::new(vended(0, Duration::ZERO), vendor.clone());
        assert!(grant.fresh().await.unwrap_err().to_string().contains("the first call fails"));
        assert_eq!(grant.fresh().await.unwrap()["s3.session-token"], "token-2");
    }
}
