//! Well-known text as a tree, whatever its dialect: a keyword with brackets around its children. What keywords mean is told elsewhere;
//! here is only how to read them, and how to spell them so that two texts of the same definition are the same text.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// More than the longest definition in the EPSG database, ten times over.
const LONGEST: usize = 256 * 1024;
/// Deeper than any standard goes.
const DEEPEST: usize = 32;

/// A keyword in upper case, and what stands in its brackets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) keyword: String,
    pub(crate) children: Vec<Child>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Child {
    Node(Node),
    Text(String),
    Number(f64),
    /// A word without brackets, such as the direction of an axis, in upper case.
    Word(String),
}

impl Node {
    /// The children that are nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.children.iter().filter_map(|child| if let Child::Node(node) = child { Some(node) } else { None })
    }

    /// The first child with one of these keywords.
    pub(crate) fn child(&self, keywords: &[&str]) -> Option<&Node> {
        self.nodes().find(|node| keywords.contains(&node.keyword.as_str()))
    }

    /// The first text among the children: the name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.children.iter().find_map(|child| if let Child::Text(text) = child { Some(text.as_str()) } else { None })
    }

    /// The numbers among the children.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.children
            .iter()
            .filter_map(|child| if let Child::Number(number) = child { Some(*number) } else { None })
            .collect()
    }

    /// Authority and code, such as `EPSG:27700`.
    pub(crate) fn id(&self) -> Option<String> {
        let id = self.child(&["AUTHORITY", "ID"])?;
        let mut values = id.children.iter();
        let (Child::Text(authority), code) = (values.next()?, values.next()?) else { return None };
        let code = match code {
            Child::Text(text) => text.trim().to_owned(),
            Child::Number(number) => number.to_string(),
            Child::Node(_) | Child::Word(_) => return None,
        };
        Some(format!("{}:{code}", authority.trim()).to_ascii_uppercase())
    }

    /// The first twelve hexadecimal digits of the SHA-256 of the definition. Case, blanks, the spelling of numbers beyond ten digits, the
    /// kind of brackets, ids, usage and axes that point north or east make no difference. `data/make.py` does the same.
    pub(crate) fn hash(&self) -> String {
        let mut spelled = String::new();
        self.spell(&mut spelled);
        let mut hash = String::new();
        for byte in Sha256::digest(spelled).iter().take(6) {
            // Writing to a string does not fail.
            let _ = write!(hash, "{byte:02x}");
        }
        hash
    }

    fn spell(&self, out: &mut String) {
        out.push_str(&self.keyword);
        out.push('[');
        let mut first = true;
        for child in self.children.iter().filter(|child| child.defines()) {
            if !first {
                out.push(',');
            }
            first = false;
            child.spell(out);
        }
        out.push(']');
    }
}

impl Child {
    /// Whether it is part of the definition, and not a remark about it.
    fn defines(&self) -> bool {
        let Self::Node(node) = self else { return true };
        let usual_axis = || {
            node.children.len() == 2
                && matches!(node.children.last(), Some(Self::Word(direction)) if direction == "EAST" || direction == "NORTH")
        };
        match node.keyword.as_str() {
            "AUTHORITY" | "ID" | "USAGE" | "SCOPE" | "AREA" | "BBOX" | "REMARK" | "METADATA" => false,
            "AXIS" => !usual_axis(),
            _ => true,
        }
    }

    fn spell(&self, out: &mut String) {
        match self {
            Self::Node(node) => node.spell(out),
            Self::Word(word) => out.push_str(word),
            Self::Number(0.0) => out.push('0'),
            Self::Number(number) => {
                let _ = write!(out, "{number:.9e}");
            }
            Self::Text(text) => {
                out.push('"');
                out.push_str(&text.split_whitespace().collect::<Vec<_>>().join(" ").to_uppercase());
                out.push('"');
            }
        }
    }
}

/// The tree of a text. ESRI writes a vertical system after the horizontal one, without a bracket around the two: it is left out.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    let text = text.trim_start_matches('\u{feff}').trim_matches(|c: char| c.is_whitespace() || c == '\0');
    if text.len() > LONGEST {
        return Err(format!("it has {} bytes, more than {LONGEST}", text.len()));
    }
    let mut reader = Reader { text, open: vec![Node { keyword: String::new(), children: Vec::new() }] };
    while reader.token()? {}
    let (Some(top), true) = (reader.open.pop(), reader.open.is_empty()) else {
        return Err("a bracket is not closed".to_owned());
    };
    let mut parts = top.children.into_iter();
    match (parts.next(), parts.next()) {
        (Some(Child::Node(node)), None) => Ok(node),
        (Some(Child::Node(node)), Some(Child::Node(vertical)))
            if vertical.keyword == "VERTCS" && parts.next().is_none() =>
        {
            Ok(node)
        }
        _ => Err("it is not one keyword with brackets".to_owned()),
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The nodes whose brackets are open; the first stands for the whole text.
    open: Vec<Node>,
}

impl Reader<'_> {
    /// Takes a token away; false at the end.
    fn token(&mut self) -> Result<bool, String> {
        self.text = self.text.trim_start();
        let Some(first) = self.text.chars().next() else { return Ok(false) };
        match first {
            ',' => self.text = &self.text[1..],
            '[' | '(' => self.enter()?,
            ']' | ')' => self.leave()?,
            '"' => self.quoted()?,
            '0'..='9' | '-' | '+' | '.' => {
                let digits = self.take(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
                let number = digits.parse::<f64>().ok().filter(|number| number.is_finite());
                let number = number.ok_or_else(|| format!("{digits:?} is no number"))?;
                self.push(Child::Number(number));
            }
            letter if letter.is_ascii_alphabetic() || letter == '_' => {
                let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_').to_ascii_uppercase();
                self.push(Child::Word(word));
            }
            other => return Err(format!("{other:?} has no meaning in well-known text")),
        }
        Ok(true)
    }

    fn push(&mut self, child: Child) {
        if let Some(node) = self.open.last_mut() {
            node.children.push(child);
        }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.text.find(|c| !belongs(c)).unwrap_or(self.text.len());
        let (taken, rest) = self.text.split_at(end);
        self.text = rest;
        taken.to_owned()
    }

    fn enter(&mut self) -> Result<(), String> {
        self.text = &self.text[1..];
        if self.open.len() > DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST}"));
        }
        match self.open.last_mut().and_then(|node| node.children.pop()) {
            Some(Child::Word(keyword)) => self.open.push(Node { keyword, children: Vec::new() }),
            _ => return Err("a bracket opens without a keyword before it".to_owned()),
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), String> {
        self.text = &self.text[1..];
        match self.open.pop() {
            Some(node) if !self.open.is_empty() => self.push(Child::Node(node)),
            _ => return Err("a bracket closes that was not opened".to_owned()),
        }
        Ok(())
    }

    /// A text in quotes, in which a quote is written twice.
    fn quoted(&mut self) -> Result<(), String> {
        let mut text = String::new();
        let mut rest = &self.text[1..];
        loop {
            let (part, after) = rest.split_once('"').ok_or("a quote is not closed")?;
            text.push_str(part);
            rest = after;
            let Some(next) = rest.strip_prefix('"') else { break };
            text.push('"');
            rest = next;
        }
        self.text = rest;
        self.push(Child::Text(text));
        Ok(())
    }
}
