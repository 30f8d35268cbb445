//! The ways in which people and standards write a code: `EPSG:27700`, `urn:ogc:def:crs:EPSG::27700`,
//! `http://www.opengis.net/def/crs/EPSG/0/27700`.

/// Authority and code, in upper case, or what to write instead.
pub(crate) fn code_of(text: &str) -> Result<(String, String), String> {
    let lower = text.to_ascii_lowercase();
    let pair = if let Some(rest) =
        lower.strip_prefix("urn:ogc:def:crs:").or_else(|| lower.strip_prefix("urn:x-ogc:def:crs:"))
    {
        first_and_last(rest, ':')
    } else if let Some((_, rest)) = lower.split_once("opengis.net/def/crs/") {
        first_and_last(rest, '/')
    } else if let Some((_, rest)) = lower.split_once("opengis.net/gml/srs/") {
        rest.split_once(".xml#")
    } else {
        // Of `EPSG:27700+5701` the horizontal part.
        let flat = lower.split_once('+').map_or(lower.as_str(), |(flat, _)| flat);
        flat.split_once(':').filter(|(_, code)| !code.contains(':'))
    };
    match pair {
        Some((authority, code)) if is_word(authority) && is_word(code) => {
            Ok((authority.to_ascii_uppercase(), code.to_ascii_uppercase()))
        }
        _ if text.is_empty() => Err("it is empty; write EPSG:… and a number, such as EPSG:27700".to_owned()),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!("write EPSG:{text} if that is meant")),
        _ if text.starts_with('+') => {
            Err("PROJ strings are not read, for they do not say how accurate they are; write EPSG:… and a number"
                .to_owned())
        }
        _ if matches!(lower.as_str(), "wgs84" | "wgs 84" | "crs84" | "lonlat" | "latlon") => {
            Err("write OGC:CRS84 if longitude and latitude on WGS 84 are meant".to_owned())
        }
        _ => Err("write EPSG:… and a number, such as EPSG:27700, or OGC:CRS84, well-known text or PROJJSON".to_owned()),
    }
}

/// The authority, and the code after the version: `epsg:9.8:27700`, `epsg/0/27700`.
fn first_and_last(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut parts = text.split(separator);
    let (authority, _version, code) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((authority, code))
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
