//! The features of a file, one after the other, whatever the order of members is and however long the file.
//!
//! The members of a collection may come in any order: `features` may be the first, and `type` or `crs` behind it. So what a document
//! is may be known only at its end; a document that can still turn out to be a single feature is kept as long as a record may
//! be. Members that are not known are checked and passed over.

use hexfloe_crs::Crs;

use super::reference;
use crate::error::Error;
use crate::files::InputFile;
use crate::json::scanner::{DEEPEST, Scanner, Span};
use crate::settings::InputLimits;

/// How features are put into files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One document: a collection, a feature or a geometry.
    Document,
    /// Features, one a line or each behind a record separator (RFC 8142).
    Sequence,
}

/// One feature, as JSON that has been checked.
#[derive(Debug)]
pub(super) struct Feature<'a> {
    /// Its place in the file, counted from 1.
    pub(super) number: u64,
    /// Where its properties begin in the text.
    pub(super) properties_offset: u64,
    pub(super) id: Option<&'a [u8]>,
    pub(super) geometry: Option<&'a [u8]>,
    /// An object.
    pub(super) properties: Option<&'a [u8]>,
    /// The reference system that it states.
    pub(super) reference: Option<&'a Crs>,
}

/// The features of one file.
pub(super) struct Features {
    scanner: Scanner,
    layout: Layout,
    /// How deep properties may be nested, and how long a record may be.
    depth: u32,
    longest: u64,
    place: Place,
    /// How many features have been given.
    number: u64,
    /// The document, or the feature that is being scanned.
    document: Members,
    feature: Members,
    is_separated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// Among the members of the document, before the first of them or behind one.
    Members {
        first: bool,
    },
    /// In the list of features.
    Elements {
        first: bool,
    },
    /// Behind a record of a sequence that began on this line.
    Records,
    End,
}

/// The members of one object that are known.
#[derive(Default)]
struct Members {
    start: u64,
    kind: Option<Kind>,
    id: Option<Span>,
    geometry: Option<Span>,
    properties: Option<Span>,
    reference: Option<Crs>,
    has_features: bool,
    is_esri: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Type,
    Id,
    Geometry,
    Properties,
    Features,
    Reference,
    Esri,
    Other,
}

impl Name {
    /// From the JSON of it.
    fn of(json: &[u8]) -> Self {
        let text = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
        if text.contains(&b'\\') {
            let plain: Result<String, _> = serde_json::from_slice(json);
            return plain.map_or(Self::Other, |plain| Self::of_text(plain.as_bytes()));
        }
        Self::of_text(text)
    }

    fn of_text(text: &[u8]) -> Self {
        match text {
            b"type" => Self::Type,
            b"id" => Self::Id,
            b"geometry" => Self::Geometry,
            b"properties" => Self::Properties,
            b"features" => Self::Features,
            b"crs" => Self::Reference,
            b"geometryType" | b"spatialReference" | b"displayFieldName" => Self::Esri,
            _ => Self::Other,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Id => "id",
            Self::Geometry => "geometry",
            Self::Properties => "properties",
            Self::Features => "features",
            Self::Reference => "crs",
            Self::Esri | Self::Other => "…",
        }
    }
}

/// The `type` of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Collection,
    Feature,
    Geometry,
    Other(String),
}

impl Kind {
    fn of(json: &[u8]) -> Result<Self, String> {
        let name: String = serde_json::from_slice(json).map_err(|_| {
            let shown: String = String::from_utf8_lossy(json).chars().take(40).collect();
            format!("`type` is {shown}, not a text")
        })?;
        Ok(match name.as_str() {
            "FeatureCollection" => Self::Collection,
            "Feature" => Self::Feature,
            "Point" | "LineString" | "Polygon" | "MultiPoint" | "MultiLineString" | "MultiPolygon"
            | "GeometryCollection" => Self::Geometry,
            _ => Self::Other(name),
        })
    }
}

impl Features {
    pub(super) fn open(file: &InputFile, layout: Layout, limits: &InputLimits) -> Result<Self, Error> {
        Ok(Self {
            scanner: Scanner::open(file, limits)?,
            layout,
            depth: limits.depth,
            longest: limits.record_bytes,
            place: Place::Start,
            number: 0,
            document: Members::default(),
            feature: Members::default(),
            is_separated: false,
        })
    }

    /// How many bytes of the file have been consumed.
    pub(super) fn consumed(&self) -> u64 {
        self.scanner.consumed()
    }

    /// The reference system that the collection states; known at the end.
    pub(super) fn reference(&self) -> Option<&Crs> {
        self.document.reference.as_ref()
    }

    /// The next feature.
    pub(super) fn next(&mut self) -> Result<Option<Feature<'_>>, Error> {
        let found = match self.layout {
            Layout::Document => self.next_of_document()?,
            Layout::Sequence => self.next_of_sequence()?,
        };
        if !found {
            return Ok(None);
        }
        let members = &self.feature;
        let text = |span: &Option<Span>| span.as_ref().and_then(|span| self.scanner.text(span));
        let is_null = |text: &&[u8]| *text == b"null";
        Ok(Some(Feature {
            number: self.number,
            properties_offset: members.properties.as_ref().map_or(members.start, |span| span.start),
            id: text(&members.id).filter(|id| !is_null(id)),
            geometry: text(&members.geometry).filter(|geometry| !is_null(geometry)),
            properties: text(&members.properties).filter(|properties| !is_null(properties)),
            reference: members.reference.as_ref(),
        }))
    }

    /// Scans up to the end of the next feature; false where there are no more.
    fn next_of_document(&mut self) -> Result<bool, Error> {
        loop {
            match self.place {
                Place::Start => self.begin_document()?,
                Place::Members { first } => {
                    self.scanner.enter(None);
                    if self.document_members(first)? {
                        return Ok(true);
                    }
                }
                Place::Elements { first } => {
                    self.scanner.enter(None);
                    self.scanner.forget();
                    if !self.scanner.next_element(first)? {
                        self.place = Place::Members { first: false };
                        continue;
                    }
                    self.place = Place::Elements { first: false };
                    self.begin_record()?;
                    self.record()?;
                    return Ok(true);
                }
                Place::Records | Place::End => return Ok(false),
            }
        }
    }

    fn begin_document(&mut self) -> Result<(), Error> {
        match self.scanner.token()? {
            Some(b'{') => {}
            Some(0x1e) => {
                return Err(self.scanner.error("is a GeoJSON text sequence: use format = \"geojsonseq\""));
            }
            None => {
                let problem = "is empty: check whether the input has arrived";
                return Err(self.scanner.error(problem));
            }
            _ => return Err(self.scanner.unexpected("the `{` of a GeoJSON object")),
        }
        self.scanner.keep(true);
        self.document = Members { start: self.scanner.offset(), ..Members::default() };
        self.scanner.take();
        self.place = Place::Members { first: true };
        Ok(())
    }

    /// Scans the members of the document up to its features (false), or to its end: true if it is one feature itself.
    fn document_members(&mut self, mut first: bool) -> Result<bool, Error> {
        loop {
            let Some(name) = self.scanner.next_member(first, Name::of)? else {
                return self.end_document();
            };
            first = false;
            let is_collection = !matches!(self.document.kind, Some(Kind::Feature | Kind::Geometry | Kind::Other(_)));
            if name == Name::Features && is_collection {
                if std::mem::replace(&mut self.document.has_features, true) {
                    return Err(self.scanner.error("the document has `features` twice: merge them"));
                }
                if self.scanner.token()? != Some(b'[') {
                    return Err(self.scanner.unexpected("the `[` of the list `features`"));
                }
                self.scanner.take();
                self.scanner.forget();
                self.place = Place::Elements { first: true };
                return Ok(false);
            }
            member(&mut self.scanner, &mut self.document, name, self.depth)?;
            if let Some(Kind::Other(kind)) = &self.document.kind {
                return Err(self.scanner.error(&other_kind(kind)));
            }
            if self.document.kind == Some(Kind::Collection) {
                self.scanner.forget();
            }
        }
    }

    fn end_document(&mut self) -> Result<bool, Error> {
        self.place = Place::End;
        let end = self.scanner.offset();
        if self.scanner.token()?.is_some() {
            let problem =
                "there is more behind the end of the document: if each line is a feature, use format = \"geojsonseq\"";
            return Err(self.scanner.error(problem));
        }
        let document = &self.document;
        let refuse = |problem: &str| Err(self.scanner.error_at(document.start, problem));
        match &document.kind {
            None if document.is_esri => {
                refuse("is Esri JSON, which has no `type`: convert it, for example with `ogr2ogr out.geojson in.json`")
            }
            None => refuse("the document has no `type`, so it is no GeoJSON: it should be \"FeatureCollection\""),
            Some(Kind::Collection) if document.has_features => Ok(false),
            Some(Kind::Collection) => refuse("the `FeatureCollection` has no `features`: is it complete?"),
            Some(_) if document.has_features => {
                refuse("the document has `features`, but its `type` is not \"FeatureCollection\"")
            }
            Some(Kind::Other(kind)) => refuse(&other_kind(kind)),
            Some(Kind::Feature | Kind::Geometry) => {
                self.number = 1;
                let document = std::mem::take(&mut self.document);
                self.feature = self.checked(document, end)?;
                Ok(true)
            }
        }
    }

    /// Scans up to the end of the next record; false where there are no more.
    fn next_of_sequence(&mut self) -> Result<bool, Error> {
        const SEPARATOR: u8 = 0x1e;
        let line = (self.place == Place::Records).then(|| self.scanner.line());
        self.scanner.enter(None);
        self.scanner.forget();
        let mut separators = 0;
        loop {
            match self.scanner.token()? {
                Some(SEPARATOR) if self.place == Place::Start || self.is_separated => {
                    self.is_separated = true;
                    self.scanner.take();
                    separators += 1;
                }
                None => return Ok(false),
                Some(_) => break,
            }
        }
        if self.is_separated && separators == 0 {
            return Err(self.scanner.unexpected("a record separator"));
        }
        if !self.is_separated && line == Some(self.scanner.line()) {
            return Err(self.scanner.unexpected("a line break between two features"));
        }
        self.place = Place::Records;
        let line = self.scanner.line();
        self.begin_record()?;
        self.record()?;
        if !self.is_separated && self.scanner.line() != line {
            let problem =
                "the feature goes on over several lines: put each on one line, or a record separator before each";
            return Err(self.scanner.error_at(self.feature.start, problem));
        }
        Ok(true)
    }

    fn begin_record(&mut self) -> Result<(), Error> {
        self.number += 1;
        self.scanner.enter(Some(self.number));
        if self.scanner.token()? != Some(b'{') {
            return Err(self.scanner.unexpected("the `{` of a feature"));
        }
        self.scanner.keep(false);
        Ok(())
    }

    /// Scans one record, at whose `{` the scanner is.
    fn record(&mut self) -> Result<(), Error> {
        let mut members = Members { start: self.scanner.offset(), ..Members::default() };
        self.scanner.take();
        let mut first = true;
        while let Some(name) = self.scanner.next_member(first, Name::of)? {
            first = false;
            members.has_features |= name == Name::Features;
            member(&mut self.scanner, &mut members, name, self.depth)?;
        }
        let end = self.scanner.offset();
        self.feature = self.checked(members, end)?;
        Ok(())
    }

    /// The members of an object that has ended, if they are those of a feature; a geometry becomes a feature without properties.
    fn checked(&self, members: Members, end: u64) -> Result<Members, Error> {
        let refuse = |problem: &str| Err(self.scanner.error_at(members.start, problem));
        let whole = members.start..end;
        if end - members.start > self.longest || self.scanner.text(&whole).is_none() {
            let problem = format!("the feature is longer than {} bytes (source.limits.record_bytes)", self.longest);
            return refuse(&problem);
        }
        match &members.kind {
            Some(Kind::Feature) => {}
            Some(Kind::Geometry) => {
                let Members { start, reference, .. } = members;
                return Ok(Members { start, reference, geometry: Some(whole), ..Members::default() });
            }
            Some(Kind::Collection) => {
                let problem = if self.layout == Layout::Sequence {
                    "is a `FeatureCollection` in a sequence of features: use format = \"geojson\""
                } else {
                    "is a `FeatureCollection` in place of a feature: take its features out of it"
                };
                return refuse(problem);
            }
            Some(Kind::Other(kind)) => return refuse(&other_kind(kind)),
            None => return refuse("has no `type`, so it is no feature: it should be \"Feature\""),
        }
        let begins = |span: &Option<Span>| {
            span.as_ref().and_then(|span| self.scanner.text(span)).and_then(|text| text.first().copied())
        };
        if !matches!(begins(&members.properties), None | Some(b'{' | b'n')) {
            return refuse("`properties` is neither an object nor null");
        }
        if !matches!(begins(&members.id), None | Some(b'"' | b'-' | b'0'..=b'9' | b'n')) {
            return refuse("`id` is neither a text nor a number");
        }
        Ok(members)
    }
}

/// Scans the value of a member, and notes where it is if it is one of those that are known.
fn member(scanner: &mut Scanner, members: &mut Members, name: Name, depth: u32) -> Result<(), Error> {
    scanner.token()?;
    let start = scanner.offset();
    let twice = match name {
        Name::Type => {
            let kind = scanner.value(DEEPEST, Kind::of)?.map_err(|problem| scanner.error_at(start, &problem))?;
            members.kind.replace(kind).is_some()
        }
        Name::Reference => {
            let crs = scanner.value(DEEPEST, reference::parse)?.map_err(|problem| scanner.error_at(start, &problem))?;
            if members.reference.as_ref().is_some_and(|known| *known != crs) {
                return Err(scanner.error_at(start, "`crs` is not that of the geometry: one of the two is wrong"));
            }
            members.reference = Some(crs);
            false
        }
        Name::Geometry => {
            geometry(scanner, members)?;
            members.geometry.replace(start..scanner.offset()).is_some()
        }
        Name::Properties => {
            scanner.pass_value(depth)?;
            members.properties.replace(start..scanner.offset()).is_some()
        }
        Name::Id => {
            scanner.pass_value(DEEPEST)?;
            members.id.replace(start..scanner.offset()).is_some()
        }
        Name::Esri | Name::Features | Name::Other => {
            members.is_esri |= name == Name::Esri;
            scanner.pass_value(DEEPEST)?;
            false
        }
    };
    if twice {
        return Err(scanner.error_at(start, &format!("the member `{}` is there twice", name.as_str())));
    }
    Ok(())
}

/// Scans a geometry, and notes the reference system that it states.
fn geometry(scanner: &mut Scanner, members: &mut Members) -> Result<(), Error> {
    if scanner.token()? != Some(b'{') {
        return scanner.pass_value(DEEPEST);
    }
    scanner.take();
    let mut first = true;
    while let Some(name) = scanner.next_member(first, Name::of)? {
        first = false;
        match name {
            Name::Reference => member(scanner, members, name, DEEPEST)?,
            _ => scanner.pass_value(DEEPEST)?,
        }
    }
    Ok(())
}

fn other_kind(kind: &str) -> String {
    let shown: String = kind.chars().take(40).collect();
    match kind {
        "Topology" => {
            "is TopoJSON, whose geometries are shared arcs: convert it, for example with `ogr2ogr out.geojson in.json` \
                       or `topo2geo`"
                .to_owned()
        }
        _ => format!("`type` is {shown:?}, which is nothing that GeoJSON knows: check the format of the file"),
    }
}
