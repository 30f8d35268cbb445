//! SQL over a source: `select` in a job, run by DataFusion.
//!
//! The source is the table `input`, streamed; nothing is collected, and what the engine has to hold (a sort, a hash table) is
//! bounded and spills. One partition keeps the rows in order, so the same input gives the same rows in the same order: functions
//! that do not (`now`, `random`) are refused, and the date of the run comes in as `$run_date`.
//!
//! The engine has a thread of its own, with its own runtime. Scans are opened and decoded by callers that may themselves be
//! inside a runtime, where blocking on another one panics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::scan::{Decoded, Scan, ScanOptions, SerialReader, SourceBatch};
use crate::{text, types};

/// What rows of a result say they come from.
pub(crate) const RESULT: &str = "select";

/// What the engine may hold before it spills.
const MEMORY: usize = 256 << 20;

/// Plans `sql` over `input` and starts it.
pub(crate) fn scan(sql: &str, input: Scan, options: &ScanOptions) -> Result<Scan, Error> {
    let run_date = match &options.run_date {
        None => None,
        Some(date) => Some(text::date(date).ok_or_else(|| {
            Error::setting(
                "--run-date",
                format!("{date:?} is not a date: write it as YYYY-MM-DD, for example 2024-05-06"),
            )
        })?),
    };
    let (sender, receiver) = sync_channel(1);
    let (schema, reader) = input.into_reader().ok_or_else(|| refused("the source is being read already"))?;
    let shared = Arc::new(Shared::default());
    let statement = Statement {
        sql: sql.to_owned(),
        run_date,
        batch_rows: options.batch_rows.max(1),
        input: Arc::new(Input { schema, reader: Mutex::new(reader), shared: Arc::clone(&shared) }),
    };
    let thread = thread::Builder::new()
        .name("select".to_owned())
        .spawn(move || statement.run(&sender))
        .map_err(Error::io(RESULT, "start the thread of"))?;
    let mut reader = SelectReader {
        receiver: Some(receiver),
        thread: Some(thread),
        shared,
        schema: Arc::new(Schema::empty()),
        rows: 0,
    };
    match reader.receive()? {
        Message::Planned(planned) => reader.schema = result_schema(&planned, options)?,
        Message::Batch(_) | Message::End => return Err(refused("the engine sent no schema")),
        Message::Failed(error) => return Err(error),
    }
    let schema = Arc::clone(&reader.schema);
    Ok(Scan::serial(schema, None, Box::new(reader)))
}

/// The columns of the result as batches carry them, widened to what the table declares.
fn result_schema(planned: &Schema, options: &ScanOptions) -> Result<SchemaRef, Error> {
    let declared = Declared::default().with_table(&options.declared);
    let mut fields: Vec<Field> = Vec::with_capacity(planned.fields().len());
    for field in planned.fields() {
        if fields.iter().any(|earlier| earlier.name() == field.name()) {
            return Err(refused(format!("the result has two columns `{}`: rename one with AS", field.name())));
        }
        let carried = types::carried(field);
        let wanted = declared.of_table(field.name()).filter(|wanted| types::widens(carried.data_type(), wanted));
        let wanted = wanted.cloned().unwrap_or_else(|| carried.data_type().clone());
        fields.push(carried.with_data_type(wanted));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn refused(problem: impl Into<String>) -> Error {
    Error::Select { problem: problem.into() }
}

enum Message {
    Planned(SchemaRef),
    Batch(RecordBatch),
    End,
    Failed(Error),
}

/// What the input tells beside its rows.
#[derive(Default)]
struct Shared {
    /// Bytes of input read since somebody last asked.
    bytes: AtomicU64,
    /// Why the input stopped. It comes out of the engine wrapped; here it is itself.
    failure: Mutex<Option<Error>>,
}

/// The result of a statement, batch by batch.
struct SelectReader {
    receiver: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    schema: SchemaRef,
    rows: u64,
}

impl SelectReader {
    fn receive(&self) -> Result<Message, Error> {
        let message = self.receiver.as_ref().and_then(|receiver| receiver.recv().ok());
        message.ok_or_else(|| {
            refused("the engine stopped without a result: this is a defect, please report the statement")
        })
    }
}

impl SerialReader for SelectReader {
    fn read(&mut self) -> Result<Decoded, Error> {
        let message = self.receive()?;
        let bytes = self.shared.bytes.swap(0, Ordering::AcqRel);
        let batch = match message {
            Message::Batch(batch) => batch,
            Message::Failed(error) => return Err(error),
            Message::End | Message::Planned(_) => return Ok(Decoded { batches: Vec::new(), last: true, bytes }),
        };
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(array, field)| cast(array, field.data_type())).collect::<Result<Vec<_>, _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = columns
            .and_then(|columns| RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options))
            .map_err(|error| refused(one_line(&error)))?;
        let first_row = self.rows + 1;
        self.rows += batch.num_rows() as u64;
        let batches = vec![SourceBatch {
            batch,
            file: RESULT.into(),
            first_row,
            layer: None,
            feature_ids: None,
            rejects: Vec::new(),
        }];
        Ok(Decoded { batches, last: false, bytes })
    }

    fn restart(&self) -> Option<Box<dyn SerialReader>> {
        None
    }
}

impl Drop for SelectReader {
    fn drop(&mut self) {
        drop(self.receiver.take()); // the thread fails to send, and ends
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A statement, on its way to the thread that runs it.
struct Statement {
    sql: String,
    run_date: Option<i32>,
    batch_rows: usize,
    input: Arc<Input>,
}

impl Statement {
    fn run(self, sender: &SyncSender<Message>) {
        let message = match tokio::runtime::Builder::new_current_thread().build() {
            Err(error) => Message::Failed(Error::io(RESULT, "start the runtime of")(error)),
            Ok(runtime) => match runtime.block_on(self.execute(sender)) {
                Ok(()) => Message::End,
                Err(error) => Message::Failed(self.cause(&error)),
            },
        };
        let _ = sender.send(message); // nobody listens any more if the scan was dropped
    }

    /// The failure of the input, if that is what stopped the engine; otherwise the engine's words.
    fn cause(&self, error: &DataFusionError) -> Error {
        let failure = self.input.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| refused(one_line(&error.strip_backtrace())))
    }

    async fn execute(&self, sender: &SyncSender<Message>) -> Result<(), DataFusionError> {
        let pool = Arc::new(FairSpillPool::new(MEMORY));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let config = SessionConfig::new().with_target_partitions(1).with_batch_size(self.batch_rows);
        let context = SessionContext::new_with_config_rt(config, runtime);
        let partition = Arc::clone(&self.input) as Arc<dyn PartitionStream>;
        let table = StreamingTable::try_new(Arc::clone(&self.input.schema), vec![partition])?;
        context.register_table("input", Arc::new(table))?;

        let only_queries = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let mut frame = context.sql_with_options(&self.sql, only_queries).await?;
        refuse_irreproducible(frame.logical_plan())?;
        if self.uses_run_date(frame.logical_plan())? {
            frame = frame.with_param_values(vec![("run_date", ScalarValue::Date32(self.run_date))])?;
        }
        let mut batches = frame.execute_stream().await?;
        if sender.send(Message::Planned(batches.schema())).is_err() {
            return Ok(());
        }
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 && sender.send(Message::Batch(batch)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn uses_run_date(&self, plan: &LogicalPlan) -> Result<bool, DataFusionError> {
        let mut names: Vec<String> = plan.get_parameter_names()?.into_iter().collect();
        names.sort();
        match names.iter().find(|name| *name != "$run_date") {
            Some(other) => plan_error(format!("there is no parameter {other}: the only one is $run_date")),
            None if names.is_empty() => Ok(false),
            None if self.run_date.is_none() => {
                plan_error("the statement uses $run_date: pass the date with --run-date YYYY-MM-DD".to_owned())
            }
            None => Ok(true),
        }
    }
}

fn plan_error<T>(problem: String) -> Result<T, DataFusionError> {
    Err(DataFusionError::Plan(problem))
}

/// Refuses functions that give another result on another run: a batch must be the same when it is made again.
fn refuse_irreproducible(plan: &LogicalPlan) -> Result<(), DataFusionError> {
    let mut found = None;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let Expr::ScalarFunction(call) = expression
                    && call.func.signature().volatility != Volatility::Immutable
                {
                    found = Some(call.func.name().to_owned());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    match found {
        None => Ok(()),
        Some(name) => plan_error(format!(
            "{name}() gives another result on another run, and a batch must be the same when it is made again: for the date of \
             the run use $run_date"
        )),
    }
}

/// The source as the table `input`. It is read anew for each mention in the statement.
struct Input {
    schema: SchemaRef,
    reader: Mutex<Box<dyn SerialReader>>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for Input {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).restart();
        let rows = Rows { reader, shared: Arc::clone(&self.shared), ready: Vec::new().into_iter() };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(rows)))
    }
}

/// The batches of the input. `reader` is gone after the last piece and after a failure.
struct Rows {
    reader: Option<Box<dyn SerialReader>>,
    shared: Arc<Shared>,
    ready: std::vec::IntoIter<SourceBatch>,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, DataFusionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Some(whole(batch).map_err(|error| self.fail(error)));
            }
            match self.reader.as_mut()?.read() {
                Ok(decoded) => {
                    self.shared.bytes.fetch_add(decoded.bytes, Ordering::AcqRel);
                    self.ready = decoded.batches.into_iter();
                    if decoded.last {
                        self.reader = None;
                        if self.ready.len() == 0 {
                            return None;
                        }
                    }
                }
                Err(error) => return Some(Err(self.fail(error))),
            }
        }
    }
}

impl Rows {
    fn fail(&mut self, error: Error) -> DataFusionError {
        self.reader = None;
        let text = one_line(&error);
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        DataFusionError::Execution(text)
    }
}

/// Rows have no identity in SQL, so none can be set aside here: one value that cannot be read stops the scan.
fn whole(batch: SourceBatch) -> Result<RecordBatch, Error> {
    match batch.rejects.first() {
        None => Ok(batch.batch),
        Some(reject) => Err(Error::Value {
            file: batch.file.to_string(),
            row: batch.first_row + reject.row as u64,
            problem: format!(
                "{}; a select has no rows to set aside: declare the column as string in [source.schema], and convert it in the \
                 select",
                reject.reason
            ),
        }),
    }
}
