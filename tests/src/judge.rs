//! The conversation with `tests/judge.py`: one JSON object a line, in and out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::place;

/// A running judge. It ends by itself when its input does, at the latest with this process.
struct Judge {
    _process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Judges that wait for a question: as many as tests have asked at once, because the engines take a second to load.
static WAITING: Mutex<Vec<Judge>> = Mutex::new(Vec::new());

/// Asks a judge; `request` holds the question's arguments.
///
/// # Panics
///
/// If the judge cannot answer: its traceback is the message.
#[track_caller]
pub fn judge(question: &str, mut request: Value) -> Value {
    request["ask"] = question.into();
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut judge = waiting.unwrap_or_else(Judge::call);
    let mut answer = judge.answer(&request);
    WAITING.lock().unwrap_or_else(PoisonError::into_inner).push(judge);
    if let Some(error) = answer["error"].as_str() {
        panic!("the judge cannot answer {request}:\n{error}");
    }
    answer["answer"].take()
}

impl Judge {
    fn call() -> Self {
        let spawned = Command::new(place::python())
            .arg(place::repository().join("tests/judge.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("cannot start tests/judge.py: {error}"));
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("tests/judge.py has no input or output");
        };
        Self { _process: process, questions, answers: BufReader::new(answers) }
    }

    fn answer(&mut self, request: &Value) -> Value {
        let mut line = String::new();
        let heard = writeln!(self.questions, "{request}").and_then(|()| self.answers.read_line(&mut line));
        match heard {
            Ok(0) => panic!("the judge ended on {request}"),
            Ok(_) => serde_json::from_str(&line).unwrap_or_else(|error| panic!("the judge said {line:?}: {error}")),
            Err(error) => panic!("cannot ask the judge {request}: {error}"),
        }
    }
}
