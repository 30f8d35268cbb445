//! Code pages: which one a `.dbf` is written in, and its texts.
//!
//! The setting wins, then the `.cpg`, then the byte of the header. Where nothing is said it is ISO-8859-1, as GDAL and Esri's
//! software have it; content is never guessed from. As on the web, ISO-8859-1 means windows-1252, which has letters where the
//! other has control characters.

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;
use crate::names;

use super::Part;

/// A code page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Encoding {
    /// One of the encodings of the web.
    Web(&'static encoding_rs::Encoding),
    /// A code page of DOS: its number, and the characters of the bytes from 128 on.
    Dos(u16, &'static str),
}

/// The characters of code page 437 from 128 on.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// The characters of code page 850 from 128 on.
const CP850: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

/// The characters of code page 852 from 128 on.
const CP852: &str = "ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×čáíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐└┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀ÓßÔŃńňŠšŔÚŕŰýÝţ´\u{ad}˝˛ˇ˘§÷¸°¨˙űŘř■\u{a0}";

/// Code pages by the byte at 29 of the header (dBase and Visual FoxPro: "language driver").
const BY_HEADER: [(u8, u16); 28] = [
    (0x01, 437),
    (0x02, 850),
    (0x03, 1252),
    (0x08, 865),
    (0x09, 437),
    (0x0a, 850),
    (0x0b, 437),
    (0x0d, 437),
    (0x13, 932),
    (0x1b, 437),
    (0x26, 866),
    (0x4d, 936),
    (0x4e, 949),
    (0x4f, 950),
    (0x57, 1252),
    (0x58, 1252),
    (0x59, 1252),
    (0x64, 852),
    (0x65, 866),
    (0x78, 950),
    (0x79, 949),
    (0x7a, 936),
    (0x7b, 932),
    (0x7c, 874),
    (0xc8, 1250),
    (0xc9, 1251),
    (0xca, 1254),
    (0xcb, 1253),
];

impl Encoding {
    /// The encoding that has this name: one of the web, a number of Windows or DOS, or the latter behind `ANSI`, `CP` and the like.
    ///
    /// # Errors
    ///
    /// What is wrong with the name.
    pub(super) fn named(label: &str) -> Result<Self, String> {
        let label = label.trim();
        if let Some(encoding) =
            encoding_rs::Encoding::for_label(label.as_bytes()).filter(|known| known.is_ascii_compatible())
        {
            return Ok(Self::Web(encoding));
        }
        let plain: String = label.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        if plain.starts_with("utf8") || plain == "65001" {
            return Ok(Self::Web(encoding_rs::UTF_8));
        }
        if let Some(part) = plain.strip_prefix("iso8859").or_else(|| plain.strip_prefix("8859")) {
            let web = encoding_rs::Encoding::for_label(format!("iso-8859-{part}").as_bytes());
            return web.map(Self::Web).ok_or_else(|| unknown(label));
        }
        let number =
            ["ansi", "oem", "cp", "windows", "ibm", "dos", "ms"].iter().find_map(|prefix| plain.strip_prefix(prefix));
        let number = number.unwrap_or(&plain).parse().ok();
        number.and_then(Self::numbered).ok_or_else(|| unknown(label))
    }

    fn numbered(number: u16) -> Option<Self> {
        Some(match number {
            437 => Self::Dos(437, CP437),
            850 => Self::Dos(850, CP850),
            852 => Self::Dos(852, CP852),
            number => Self::Web(match number {
                866 => encoding_rs::IBM866,
                874 => encoding_rs::WINDOWS_874,
                932 => encoding_rs::SHIFT_JIS,
                936 => encoding_rs::GBK,
                949 => encoding_rs::EUC_KR,
                950 => encoding_rs::BIG5,
                1250..=1258 => encoding_rs::Encoding::for_label(format!("windows-{number}").as_bytes())?,
                _ => return None,
            }),
        })
    }

    /// What the header of a `.dbf` says; ISO-8859-1 if it says nothing.
    pub(super) fn of_header(dbf: &mut Part) -> Result<Self, Error> {
        let byte = dbf.start()?[29];
        if byte == 0 {
            return Ok(Self::Web(encoding_rs::WINDOWS_1252));
        }
        let number = BY_HEADER.iter().find(|(known, _)| *known == byte).map(|(_, number)| *number);
        number.and_then(Self::numbered).ok_or_else(|| {
            let known = number.map_or_else(String::new, |number| format!(" (code page {number})"));
            dbf.refuse(format!(
                "says in its header that its language driver is 0x{byte:02x}{known}, which is not known here: set source.encoding"
            ))
        })
    }

    /// The text that these bytes are; `None` if they are none. A character that the end of the field has cut in two is left
    /// out, unless the text is `whole`.
    pub(super) fn decode<'a>(&self, bytes: &'a [u8], whole: bool) -> Option<Cow<'a, str>> {
        match self {
            Self::Dos(_, characters) => {
                if bytes.is_ascii() {
                    return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
                }
                let upper: Vec<char> = characters.chars().collect();
                let character = |byte: &u8| match byte.checked_sub(128) {
                    None => Some(char::from(*byte)),
                    Some(place) => upper.get(usize::from(place)).copied(),
                };
                bytes.iter().map(character).collect::<Option<String>>().map(Cow::Owned)
            }
            Self::Web(encoding) if *encoding == encoding_rs::UTF_8 => match std::str::from_utf8(bytes) {
                Ok(text) => Some(Cow::Borrowed(text)),
                Err(error) if !whole && error.error_len().is_none() => {
                    std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok().map(Cow::Borrowed)
                }
                Err(_) => None,
            },
            Self::Web(encoding) => {
                let text = encoding.decode_without_bom_handling_and_without_replacement(bytes);
                match (text, bytes.split_last()) {
                    (Some(text), _) => Some(text),
                    (None, Some((last, rest))) if !whole && *last >= 0x80 => {
                        encoding.decode_without_bom_handling_and_without_replacement(rest)
                    }
                    _ => None,
                }
            }
        }
    }
}

fn unknown(label: &str) -> String {
    const SOME: [&str; 12] = [
        "UTF-8",
        "ISO-8859-1",
        "ISO-8859-2",
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "GBK",
        "Big5",
        "Shift_JIS",
        "EUC-KR",
        "cp437",
        "cp850",
    ];
    format!("`{label}` is no encoding that is known{}", names::hint(&names::nearest(label, SOME)))
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(encoding) => f.write_str(encoding.name()),
            Self::Dos(number, _) => write!(f, "cp{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("UTF-8", "UTF-8")]
    #[case("utf8", "UTF-8")]
    #[case("65001", "UTF-8")]
    #[case("ISO-8859-1", "windows-1252")]
    #[case("ISO 8859-1", "windows-1252")]
    #[case("88591", "windows-1252")]
    #[case("8859_15", "ISO-8859-15")]
    #[case("1252", "windows-1252")]
    #[case("ANSI 1252", "windows-1252")]
    #[case("CP1251", "windows-1251")]
    #[case("cp936", "GBK")]
    #[case("gbk", "GBK")]
    #[case("GB2312", "GBK")]
    #[case("big5", "Big5")]
    #[case("950", "Big5")]
    #[case("OEM 850", "cp850")]
    #[case("IBM437", "cp437")]
    #[case("Shift_JIS", "Shift_JIS")]
    fn an_encoding_has_many_names(#[case] label: &str, #[case] expected: &str) {
        assert_eq!(Encoding::named(label).map(|encoding| encoding.to_string()), Ok(expected.to_owned()));
    }

    #[rstest]
    #[case("utf-16")]
    #[case("EBCDIC")]
    #[case("")]
    fn a_name_that_is_not_known_is_refused(#[case] label: &str) {
        assert!(Encoding::named(label).unwrap_err().contains("the nearest names are"));
    }

    #[rstest]
    #[case("utf-8", "Zürich".as_bytes(), Some("Zürich"))]
    #[case("utf-8", b"Z\xfcrich", None)]
    #[case("utf-8", b"Z\xc3", Some("Z"))]
    #[case("utf-8", b"\xe5\xb1", Some(""))]
    #[case("gbk", b"\xb1\xb1\xbe\xa9", Some("北京"))]
    #[case("gbk", b"\xb1\xb1\xbe", Some("北"))]
    #[case("gbk", b"\xff\xff\xff", None)]
    #[case("1252", b"caf\xe9", Some("café"))]
    #[case("cp850", b"Z\x81rich", Some("Zürich"))]
    #[case("cp437", b"\x9b", Some("¢"))]
    fn bytes_are_text_or_not_and_a_cut_character_is_left_out(
        #[case] label: &str,
        #[case] bytes: &[u8],
        #[case] expected: Option<&str>,
    ) {
        let encoding = Encoding::named(label).unwrap();
        assert_eq!(encoding.decode(bytes, false).as_deref(), expected);
    }

    #[test]
    fn a_text_that_ends_before_its_field_has_no_cut_character() {
        assert_eq!(Encoding::named("utf-8").unwrap().decode(b"Z\xc3", true), None);
    }

    #[test]
    fn a_code_page_has_a_character_for_each_byte() {
        for (number, characters) in [(437, CP437), (850, CP850), (852, CP852)] {
            assert_eq!(characters.chars().count(), 128, "{number}");
        }
    }
}
