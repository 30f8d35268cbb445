//! JSON text (RFC 8259) that need not fit in memory: a scanner that is told what to expect, checks it, and holds no more than it
//! is asked to keep.
//!
//! Values are passed over without recursion, so that neither depth nor length of the text is a matter of the stack. Every byte
//! that is passed has been checked: structure, numbers, escapes and UTF-8. An error says where it is.

use std::ops::Range;
use std::sync::Arc;

use crate::content::Content;
use crate::error::Error;
use crate::files::{CHUNK, InputFile};
use crate::settings::InputLimits;

/// How deep values may be nested at most: the parsers that read the parts go to 128.
pub(crate) const DEEPEST: u32 = 120;

/// A part of the text, by offsets in bytes.
pub(crate) type Span = Range<u64>;

/// See the [module](self).
pub(crate) struct Scanner {
    file: Arc<str>,
    input: Content,
    buffer: Vec<u8>,
    /// The next byte.
    position: usize,
    end: usize,
    ended: bool,
    /// The offset in the text of the first byte of the buffer.
    base: u64,
    /// Line breaks passed so far.
    lines: u64,
    /// The most bytes that may be kept.
    longest: usize,
    kept: Option<Kept>,
    /// Where a short part begins that is held until it has been read, kept or not.
    captured: Option<usize>,
    /// The number of the record that is being scanned, for messages.
    record: Option<u64>,
}

/// From where on the text is kept.
#[derive(Clone, Copy)]
struct Kept {
    start: usize,
    /// Whether to forget it, rather than to fail, when it becomes too long.
    forget: bool,
}

/// Objects and lists that are open, the innermost last.
#[derive(Default)]
struct Nesting {
    /// A bit each: set for an object.
    objects: u128,
    depth: u32,
}

impl Scanner {
    pub(crate) fn open(file: &InputFile, limits: &InputLimits) -> Result<Self, Error> {
        Self::with_buffer(file, limits, CHUNK)
    }

    fn with_buffer(file: &InputFile, limits: &InputLimits, bytes: usize) -> Result<Self, Error> {
        let mut scanner = Self {
            file: Arc::clone(file.name()),
            input: Content::open(file, limits)?,
            buffer: vec![0; bytes],
            position: 0,
            end: 0,
            ended: false,
            base: 0,
            lines: 0,
            longest: limits.longest_record(),
            kept: None,
            captured: None,
            record: None,
        };
        scanner.fill()?;
        match &scanner.buffer[..scanner.end] {
            [0xef, 0xbb, 0xbf, ..] => scanner.position = 3,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                let problem = "is UTF-16: convert the file to UTF-8, for example with `iconv -f UTF-16 -t UTF-8`";
                return Err(Error::unreadable(&scanner.file, problem));
            }
            _ => {}
        }
        Ok(scanner)
    }

    /// The offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// The line of the next byte, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.lines + 1
    }

    /// How many bytes of the file have been consumed.
    pub(crate) fn consumed(&self) -> u64 {
        self.input.compressed_bytes().unwrap_or_else(|| self.offset())
    }

    /// Names the record that follows in messages; `None` for what is between records.
    pub(crate) fn enter(&mut self, record: Option<u64>) {
        self.record = record;
    }

    /// What is wrong, at the next byte.
    pub(crate) fn error(&self, problem: &str) -> Error {
        self.error_at(self.offset(), problem)
    }

    pub(crate) fn error_at(&self, offset: u64, problem: &str) -> Error {
        let record = self.record.map(|record| format!("feature {record}, ")).unwrap_or_default();
        Error::unreadable(&self.file, format!("{record}byte {offset}: {problem}"))
    }

    /// The error for a byte that does not continue the text.
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        let Some(byte) = self.buffer[..self.end].get(self.position) else {
            return self.error(&format!("the file ends where {wanted} is wanted: it is cut off"));
        };
        let problem = match byte {
            b'N' | b'I' => format!(
                "NaN and Infinity are no JSON, and {wanted} is wanted: write null for a number that is not there"
            ),
            0x1e => format!("a record separator where {wanted} is wanted: the record before it is cut off"),
            b' '..=b'~' => format!("`{}` where {wanted} is wanted", char::from(*byte)),
            byte => format!("byte 0x{byte:02x} where {wanted} is wanted"),
        };
        self.error(&problem)
    }

    /// Keeps the text from the next byte on, in place of what was kept. Text that becomes longer than a record may be is an error
    /// or, if `forget` says so, is no longer kept.
    pub(crate) fn keep(&mut self, forget: bool) {
        self.kept = Some(Kept { start: self.position, forget });
    }

    /// Keeps nothing.
    pub(crate) fn forget(&mut self) {
        self.kept = None;
    }

    /// A part of what is kept, up to the next byte. Nothing if it is not kept.
    pub(crate) fn text(&self, span: &Span) -> Option<&[u8]> {
        let held = self.held()?;
        let place = |offset: u64| usize::try_from(offset.checked_sub(self.base)?).ok();
        let (start, end) = (place(span.start)?, place(span.end)?);
        if start < held { None } else { self.buffer[..self.end].get(start..end) }
    }

    /// The next byte that is no blank, which is not taken; `None` at the end of the text.
    #[inline]
    pub(crate) fn token(&mut self) -> Result<Option<u8>, Error> {
        match self.buffer[..self.end].get(self.position) {
            Some(byte) if *byte > b' ' => Ok(Some(*byte)),
            _ => self.token_behind_blanks(),
        }
    }

    fn token_behind_blanks(&mut self) -> Result<Option<u8>, Error> {
        loop {
            while let Some(byte) = self.buffer[..self.end].get(self.position) {
                match byte {
                    b'\n' => self.lines += 1,
                    b' ' | b'\t' | b'\r' => {}
                    other => return Ok(Some(*other)),
                }
                self.position += 1;
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Takes the byte that [`token`](Self::token) has given.
    pub(crate) fn take(&mut self) {
        self.position = (self.position + 1).min(self.end);
    }

    /// After the `{` of an object (`first`), or a member: the next name, as `classify` takes its text (with its quotes), and the
    /// colon behind it. `None` for the `}`.
    pub(crate) fn next_member<T>(
        &mut self,
        first: bool,
        classify: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        match self.token()? {
            Some(b'}') => {
                self.take();
                return Ok(None);
            }
            Some(b'"') if first => {}
            Some(b',') if !first => {
                self.take();
                if self.token()? != Some(b'"') {
                    return Err(self.unexpected("the name of a member"));
                }
            }
            _ => return Err(self.unexpected(if first { "a name or `}`" } else { "`,` or `}`" })),
        }
        let name = self.capture(Self::pass_string, classify)?;
        self.pass_colon()?;
        Ok(Some(name))
    }

    /// After the `[` of a list (`first`), or an element: whether there is another element, before which this stops. Otherwise the
    /// `]` has been taken.
    pub(crate) fn next_element(&mut self, first: bool) -> Result<bool, Error> {
        match self.token()? {
            Some(b']') => {
                self.take();
                Ok(false)
            }
            Some(_) if first => Ok(true),
            Some(b',') => {
                self.take();
                self.token()?;
                Ok(true)
            }
            _ => Err(self.unexpected("`,` or `]`")),
        }
    }

    /// Passes over one value and gives its text to `read`.
    pub(crate) fn value<T>(&mut self, depth: u32, read: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
        self.token()?;
        self.capture(|scanner| scanner.pass_value(depth), read)
    }

    fn capture<T>(
        &mut self,
        pass: impl FnOnce(&mut Self) -> Result<(), Error>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        self.captured = Some(self.position);
        let start = self.offset();
        pass(self)?;
        let Some(text) = self.text(&(start..self.offset())) else { return Err(self.too_long()) };
        let value = read(text);
        self.captured = None;
        Ok(value)
    }

    /// Where what is held begins in the buffer.
    fn held(&self) -> Option<usize> {
        self.kept.map(|kept| kept.start).or(self.captured)
    }

    /// Passes over one value, in which objects and lists may be `depth` deep.
    pub(crate) fn pass_value(&mut self, depth: u32) -> Result<(), Error> {
        let mut open = Nesting::default();
        'value: loop {
            match self.token()? {
                Some(byte @ (b'{' | b'[')) => {
                    if open.depth >= depth.min(DEEPEST) {
                        let problem = format!("objects and lists are nested deeper than {depth} (source.limits.depth)");
                        return Err(self.error(&problem));
                    }
                    open.push(byte == b'{');
                    self.take();
                    match self.token()? {
                        Some(b'"') if byte == b'{' => {
                            self.pass_name()?;
                            continue 'value;
                        }
                        Some(b'}') if byte == b'{' => {}
                        _ if byte == b'{' => return Err(self.unexpected("a name or `}`")),
                        Some(b']') => {}
                        _ => continue 'value,
                    }
                }
                Some(b'"') => self.pass_string()?,
                Some(b'-' | b'0'..=b'9') => self.pass_number()?,
                Some(b't') => self.pass_word(b"true")?,
                Some(b'f') => self.pass_word(b"false")?,
                Some(b'n') => self.pass_word(b"null")?,
                _ => return Err(self.unexpected("a value")),
            }
            loop {
                let Some(is_object) = open.innermost() else { return Ok(()) };
                match (self.token()?, is_object) {
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.take();
                        open.pop();
                    }
                    (Some(b','), true) => {
                        self.take();
                        if self.token()? != Some(b'"') {
                            return Err(self.unexpected("the name of a member"));
                        }
                        self.pass_name()?;
                        continue 'value;
                    }
                    (Some(b','), false) => {
                        self.take();
                        continue 'value;
                    }
                    (_, true) => return Err(self.unexpected("`,` or `}`")),
                    (_, false) => return Err(self.unexpected("`,` or `]`")),
                }
            }
        }
    }

    fn pass_name(&mut self) -> Result<(), Error> {
        self.pass_string()?;
        self.pass_colon()
    }

    fn pass_colon(&mut self) -> Result<(), Error> {
        if self.token()? != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.take();
        Ok(())
    }

    /// Passes over a text, at whose first quote this is.
    fn pass_string(&mut self) -> Result<(), Error> {
        self.take();
        loop {
            let rest = &self.buffer[self.position..self.end];
            let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7f) && !matches!(byte, b'"' | b'\\');
            let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            let next = rest.get(plain).copied();
            self.position += plain;
            match next {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.pass_escape()?;
                    continue;
                }
                Some(..0x20) => return Err(self.unexpected("the end of a text")),
                Some(_) => {
                    self.pass_character()?;
                    continue;
                }
                None => {}
            }
            if !self.fill()? {
                return Err(self.unexpected("the end of a text"));
            }
        }
    }

    fn pass_escape(&mut self) -> Result<(), Error> {
        self.need(2)?;
        let rest = &self.buffer[self.position..self.end];
        let length = match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => {
                self.need(6)?;
                let digits = self.buffer[..self.end].get(self.position + 2..self.position + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.error("`\\u` is not followed by four hexadecimal digits"));
                }
                6
            }
            _ => return Err(self.error("a backslash is not followed by what JSON knows")),
        };
        self.position += length;
        Ok(())
    }

    /// Passes over one character that is not ASCII.
    fn pass_character(&mut self) -> Result<(), Error> {
        self.need(4)?;
        let rest = &self.buffer[self.position..self.end];
        let length = match rest.first() {
            Some(0xc2..=0xdf) => 2,
            Some(0xe0..=0xef) => 3,
            Some(0xf0..=0xf4) => 4,
            _ => 1,
        };
        if rest.get(..length).is_none_or(|bytes| std::str::from_utf8(bytes).is_err()) {
            let problem = "is not UTF-8: convert the file, for example with `iconv -t UTF-8`";
            return Err(self.error(problem));
        }
        self.position += length;
        Ok(())
    }

    fn pass_number(&mut self) -> Result<(), Error> {
        // Nearly every number is a plain one and lies in the buffer.
        let rest = &self.buffer[self.position..self.end];
        if let Some(length) = plain_number(rest) {
            self.position += length;
            return Ok(());
        }
        if self.peek()? == Some(b'-') {
            self.take();
        }
        match self.peek()? {
            Some(b'0') => self.take(),
            Some(b'1'..=b'9') => self.pass_digits()?,
            _ => return Err(self.unexpected("a digit")),
        }
        if self.peek()? == Some(b'.') {
            self.take();
            self.pass_digits()?;
        }
        if matches!(self.peek()?, Some(b'e' | b'E')) {
            self.take();
            if matches!(self.peek()?, Some(b'+' | b'-')) {
                self.take();
            }
            self.pass_digits()?;
        }
        Ok(())
    }

    fn pass_digits(&mut self) -> Result<(), Error> {
        if !self.peek()?.is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected("a digit"));
        }
        while self.peek()?.is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        Ok(())
    }

    fn pass_word(&mut self, word: &[u8]) -> Result<(), Error> {
        for expected in word {
            if self.peek()? != Some(*expected) {
                return Err(self.unexpected("true, false or null"));
            }
            self.position += 1;
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, Error> {
        if self.position == self.end && !self.fill()? {
            return Ok(None);
        }
        Ok(self.buffer.get(self.position).copied())
    }

    /// Reads on until `count` bytes are there, or the text has ended.
    fn need(&mut self, count: usize) -> Result<(), Error> {
        while self.end - self.position < count && self.fill()? {}
        Ok(())
    }

    fn too_long(&self) -> Error {
        self.error(&format!("a record is longer than {} bytes (source.limits.record_bytes)", self.longest))
    }

    /// Reads more, behind what is kept; false at the end of the text.
    #[cold]
    fn fill(&mut self) -> Result<bool, Error> {
        if self.ended {
            return Ok(false);
        }
        let too_long = |start: usize| self.end - start > self.longest;
        if self.kept.is_some_and(|kept| kept.forget && too_long(kept.start)) {
            self.kept = None;
        }
        if self.held().is_some_and(too_long) {
            return Err(self.too_long());
        }
        let from = self.held().unwrap_or(self.position);
        if from > 0 {
            self.buffer.copy_within(from..self.end, 0);
            self.base += from as u64;
            self.position -= from;
            self.end -= from;
            if let Some(kept) = &mut self.kept {
                kept.start = 0;
            }
            self.captured = self.captured.map(|start| start - from);
        }
        if self.end > self.buffer.len() / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = self.input.read(&mut self.buffer[self.end..])?;
        self.ended = read < self.buffer.len() - self.end;
        self.end += read;
        Ok(read > 0)
    }
}

/// The length of a number without exponent at the beginning of `bytes`, if it ends there.
fn plain_number(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes.get(from..)?.iter().position(|byte| !byte.is_ascii_digit());
    let start = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(start)?;
    if whole == 0 || (whole > 1 && bytes.get(start) == Some(&b'0')) {
        return None;
    }
    let mut end = start + whole;
    if bytes.get(end) == Some(&b'.') {
        let decimals = digits(end + 1)?;
        if decimals == 0 {
            return None;
        }
        end += 1 + decimals;
    }
    (!matches!(bytes.get(end), None | Some(b'e' | b'E'))).then_some(end)
}

impl Nesting {
    fn push(&mut self, is_object: bool) {
        self.objects = self.objects << 1 | u128::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth = self.depth.saturating_sub(1);
    }

    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.objects & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    fn with_file<T>(text: &[u8], use_it: impl FnOnce(&InputFile) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), text).unwrap();
        use_it(&files::find(&["a".to_owned()], folder.path(), crate::Format::Geojson, None).unwrap()[0])
    }

    /// Whether the text is one value.
    fn is_value(text: &[u8], bytes: usize) -> bool {
        with_file(text, |file| {
            let mut scanner = Scanner::with_buffer(file, &InputLimits::default(), bytes)?;
            scanner.pass_value(DEEPEST)?;
            scanner.token()
        })
        .is_ok_and(|rest| rest.is_none())
    }

    fn token() -> impl Strategy<Value = String> {
        let whole = "[\\[\\]{},: ]|true|false|null|nul|-?[0-9]{1,3}|[-+.eE0-9]{1,6}";
        prop_oneof![whole, "\"[a-z]{0,3}\"", "\"(\\\\[nu\"x/]|[0-9a-f]){0,6}\"", Just("\"a\":".to_owned())]
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        plain.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..4).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_json_is_what_another_reader_says(tokens in prop::collection::vec(token(), 0..12), bytes in 4usize..64) {
            let text = tokens.concat();
            let expected = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            prop_assert_eq!(is_value(text.as_bytes(), bytes), expected, "{}", text);
        }

        #[test]
        fn every_value_is_passed_however_small_the_buffer(value in value(), bytes in 4usize..64, is_pretty in any::<bool>()) {
            let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            prop_assert!(is_value(text.as_bytes(), bytes), "{}", text);
            let kept = with_file(text.as_bytes(), |file| {
                let mut scanner = Scanner::with_buffer(file, &InputLimits::default(), bytes)?;
                scanner.value(DEEPEST, <[u8]>::to_vec)
            });
            prop_assert_eq!(kept.unwrap(), text.trim().as_bytes());
        }
    }
}
