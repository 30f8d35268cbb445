//! The text of a file, whether it is compressed or not.
//!
//! gzip (RFC 1952) and zstd (RFC 8878) are told by their first bytes and not by the name of the file: no text in UTF-8 begins
//! with these. A file may have several members or frames one after the other, and has to end with the last one: what is cut off
//! is an error and not less text. The text is streamed, and may be `limits.expansion` times as long as the file.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, one_line};
use crate::files::{CHUNK, InputFile, Sequential};
use crate::settings::InputLimits;

/// The largest window of a zstd frame, as a power of two: 128 MiB, what zstd itself accepts unless it is told otherwise.
const LARGEST_WINDOW: u32 = 27;

/// A text read from its beginning to its end.
pub(crate) struct Content {
    input: InputFile,
    coded: Coded,
    limits: InputLimits,
    /// Bytes of text given so far.
    given: u64,
}

enum Coded {
    Plain(Sequential),
    Gzip(Box<MultiGzDecoder<BufReader<Bytes>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Bytes>>),
}

impl Content {
    /// Opens a file, and sees whether it is compressed.
    pub(crate) fn open(input: &InputFile, limits: &InputLimits) -> Result<Self, Error> {
        let mut magic = [0; 10];
        let length = Sequential::new(input)?.read(&mut magic)?;
        let bytes = || {
            Ok::<_, Error>(BufReader::with_capacity(
                CHUNK,
                Bytes { input: Sequential::new(input)?, read: 0, failed: None },
            ))
        };
        let coded = match magic.get(..length).unwrap_or_default() {
            [0x1f, 0x8b, ..] => Coded::Gzip(Box::new(MultiGzDecoder::new(bytes()?))),
            // A frame, or one that is to be skipped: parallel compressors begin with such.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes()?)
                    .map_err(Error::io(input.path(), "decompress"))?;
                decoder.window_log_max(LARGEST_WINDOW).map_err(Error::io(input.path(), "decompress"))?;
                Coded::Zstd(decoder)
            }
            other => {
                if let Some(coding) = foreign(other) {
                    let problem =
                        format!("is compressed with {coding}, which is not read: unpack it, or use gzip or zstd");
                    return Err(Error::unreadable(input.path(), problem));
                }
                Coded::Plain(Sequential::new(input)?)
            }
        };
        Ok(Self { input: input.clone(), coded, limits: limits.clone(), given: 0 })
    }

    /// Fills `buffer` as far as the text goes; less than the whole buffer means that the end has been reached.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let most = self.limits.expansion.saturating_mul(self.input.size());
        let mut filled = 0;
        while filled < buffer.len() {
            let room = &mut buffer[filled..];
            let read = match &mut self.coded {
                Coded::Plain(file) => return file.read(room),
                Coded::Gzip(decoder) => decoder.read(room),
                Coded::Zstd(decoder) => decoder.read(room),
            };
            match read {
                Ok(0) => break,
                Ok(read) => {
                    filled += read;
                    self.given += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
            if self.given > most {
                let problem = format!(
                    "becomes more than {} times its {} bytes when it is unpacked, which looks like an attack: if it is none, raise \
                     `source.limits.expansion`",
                    self.limits.expansion,
                    self.input.size()
                );
                return Err(Error::unreadable(self.input.path(), problem));
            }
        }
        Ok(filled)
    }

    /// How many bytes of the file have been taken; `None` where it is not compressed, and each byte of text is one of the file.
    pub(crate) fn compressed_bytes(&self) -> Option<u64> {
        match &self.coded {
            Coded::Plain(_) => None,
            Coded::Gzip(decoder) => Some(decoder.get_ref().get_ref().read),
            Coded::Zstd(decoder) => Some(decoder.get_ref().get_ref().read),
        }
    }

    fn failed(&mut self, error: &io::Error) -> Error {
        let (name, bytes) = match &mut self.coded {
            Coded::Plain(_) => ("", None),
            Coded::Gzip(decoder) => ("gzip", Some(decoder.get_mut().get_mut())),
            Coded::Zstd(decoder) => ("zstd", Some(decoder.get_mut().get_mut())),
        };
        // What the file itself says comes first: that it has changed, or cannot be read.
        if let Some(error) = bytes.and_then(|bytes| bytes.failed.take()) {
            return error;
        }
        let problem = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("the {name} data ends too early after {} bytes of text: the file is cut off", self.given)
            }
            _ => format!("the {name} data is damaged after {} bytes of text: {}", self.given, one_line(error)),
        };
        Error::unreadable(self.input.path(), problem)
    }
}

/// What else a file may be compressed with, by its first bytes.
fn foreign(magic: &[u8]) -> Option<&'static str> {
    match magic {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59] => Some("bzip2"),
        [b'P', b'K', 3, 4, ..] => Some("zip"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some("7z"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some("lz4"),
        _ => None,
    }
}

/// The bytes of a file for a decoder, which knows no errors but those of input and output.
struct Bytes {
    input: Sequential,
    read: u64,
    failed: Option<Error>,
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buffer) {
            Ok(read) => {
                self.read += read as u64;
                Ok(read)
            }
            Err(error) => {
                let said = io::Error::other(error.to_string());
                self.failed = Some(error);
                Err(said)
            }
        }
    }
}
