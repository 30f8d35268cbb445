"""The ten ways in which the product is broken.

Each is a few replacements of text. `SWITCH` stands for the question whether it is this one that is on. A text that is not in
its file exactly once is an error: then the code has changed, and the mutation has to be looked at.
"""

import dataclasses

COMMITTER = "crates/commit/src/committer.rs"
PLAN = "crates/commit/src/plan.rs"
SNAPSHOT = "crates/commit/src/snapshot.rs"
MANIFEST_BYTES = "crates/commit/src/manifest_bytes.rs"
ORPHANS = "crates/orphan-cleanup/src/orphans.rs"
GROUPS = "crates/ingest/src/groups.rs"

COMMIT, CLEANUP, INGEST = ("commit",), ("cleanup",), ("ingest",)
# Who is told is a matter of whole processes; the cases with servers say no more here.
NOTIFY = ("system", "notify::", "--skip", "RestS3")


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    # What the product does then.
    what: str
    # File, text, and what is put in its place.
    edits: tuple
    # The tests that may find it: a test target and arguments for it, the likeliest first.
    tests: tuple
    # The rule of the model that this leaves out, if it has that.
    guard: str | None = None


MUTATIONS = (
    Mutation(
        "ledger-not-asked",
        "the ledger check is removed from the loop",
        (
            (
                COMMITTER,
                "Some(BatchOutcome::Skipped { snapshot_id }) => Some(Settled::Skipped { snapshot_id }),",
                "Some(BatchOutcome::Skipped { snapshot_id }) if !SWITCH => Some(Settled::Skipped { snapshot_id }),",
            ),
        ),
        (COMMIT, INGEST),
    ),
    Mutation(
        "ledger-not-recomputed",
        "a second attempt writes the ledger of the first",
        (
            (
                COMMITTER,
                "    pub(crate) answer: Answer,\n",
                "    pub(crate) answer: Answer,\n    first_properties: HashMap<String, String>,\n",
            ),
            (
                COMMITTER,
                "        let request = CommitRequest { base: base.table,",
                """        let first_properties = match draft.updates.last() {
            Some(TableUpdate::SetProperties { updates }) => updates.clone(),
            _ => HashMap::new(),
        };
        let request = CommitRequest { base: base.table,""",
            ),
            (COMMITTER, "            answer: Answer::Open,\n", "            answer: Answer::Open,\n            first_properties,\n"),
            (
                COMMITTER,
                "        let properties = self.properties(batches, base, snapshot_id);\n",
                """        let mut properties = self.properties(batches, base, snapshot_id);
        let ledger = names::completed_batches(&base.branch);
        if let Some(value) = sent.first().and_then(|first| first.first_properties.get(&ledger)).filter(|_| SWITCH) {
            properties.insert(ledger, value.clone());
        }
""",
            ),
        ),
        (COMMIT, INGEST),
    ),
    Mutation(
        "requirement-dropped",
        "a commit is not conditioned on the head that it was decided on",
        (
            (
                SNAPSHOT,
                "TableRequirement::RefSnapshotIdMatch { r#ref: base.branch.clone(), snapshot_id: base.branch_head },",
                """match SWITCH {
            true => TableRequirement::UuidMatch { uuid: metadata.uuid() },
            false => {
                TableRequirement::RefSnapshotIdMatch { r#ref: base.branch.clone(), snapshot_id: base.branch_head }
            }
        },""",
            ),
        ),
        (COMMIT, INGEST),
        "Requirement",
    ),
    Mutation(
        "unknown-is-failed",
        "a commit without an answer is taken for failed: its files are removed",
        (
            (
                COMMITTER,
                "Ok(CommitOutcome::Unknown { reason, source }) => Attempt::Unknown { reason, source },",
                """Ok(CommitOutcome::Unknown { reason, .. }) if SWITCH => {
                this.answer = Answer::Refuted;
                Attempt::Failed(Error::Exhausted { table: group.table(), attempts: 1, waited_ms: 0, reason })
            }
            Ok(CommitOutcome::Unknown { reason, source }) => Attempt::Unknown { reason, source },""",
            ),
        ),
        (COMMIT, INGEST),
        "UnknownIsNotFailed",
    ),
    Mutation(
        "not-instead-of-is-not-true",
        "rows stay where NOT (filter), and not where (filter) IS NOT TRUE: those with a null in a compared column go",
        (
            (
                PLAN,
                "        let mut matching = Vec::new();\n",
                "        let mut matching = Vec::new();\n        let mut neither = Vec::new();\n",
            ),
            (
                PLAN,
                "            matching.extend((rows.first..).zip(matches.values())",
                """            let is_null = |row: &usize| {
                rows.batch.columns().iter().any(|column| arrow::array::Array::is_null(column.as_ref(), *row))
            };
            neither.extend((0..rows.batch.num_rows()).filter(is_null).map(|row| rows.first + row as u64));
            matching.extend((rows.first..).zip(matches.values())""",
            ),
            (
                PLAN,
                "        if matching.is_empty() {\n            return Ok(Fate::Keep);\n        }\n",
                """        if matching.is_empty() {
            return Ok(Fate::Keep);
        }
        if SWITCH {
            matching.append(&mut neither);
            matching.sort_unstable();
        }
""",
            ),
        ),
        (COMMIT, INGEST),
    ),
    Mutation(
        "margin-ignored",
        "files go however young they are",
        (
            (
                ORPHANS,
                "Some(time) if time >= self.cutoff =>",
                "Some(time) if time >= self.cutoff && !SWITCH =>",
            ),
        ),
        (CLEANUP,),
        "Margin",
    ),
    Mutation(
        "second-reload-skipped",
        "the table is not loaded again after the listing",
        (
            (
                ORPHANS,
                "        watch.look_again().await?;\n",
                "        if !SWITCH {\n            watch.look_again().await?;\n        }\n",
            ),
        ),
        (CLEANUP,),
        "SecondReload",
    ),
    Mutation(
        "removed-without-sequence-numbers",
        "entries of removed files do not keep their sequence numbers",
        (
            (
                SNAPSHOT,
                "            .add_delete_file(file, sequence_number(entry)?, entry.file_sequence_number)\n",
                """            .add_delete_file(
                file,
                if SWITCH { -1 } else { sequence_number(entry)? },
                entry.file_sequence_number.filter(|_| !SWITCH),
            )
""",
            ),
            (
                MANIFEST_BYTES,
                "                    return entry.prefix(DELETED, snapshot_id);\n",
                """                    let mut entry = entry.clone();
                    if SWITCH {
                        (entry.sequence_number, entry.file_sequence_number) = (-1, -1);
                    }
                    return entry.prefix(DELETED, snapshot_id);
""",
            ),
        ),
        (COMMIT, INGEST),
    ),
    Mutation(
        "digest-ignored",
        "an id that comes with another content is taken for the batch that is there",
        (
            (
                COMMITTER,
                "let same = digests.map(|(then, now)| *then == now.to_string());",
                "let same = digests.map(|(then, now)| *then == now.to_string()).filter(|_| !SWITCH);",
            ),
        ),
        (COMMIT, INGEST),
    ),
    Mutation(
        "notify-before-commit",
        "others are told before the commit",
        (
            (
                GROUPS,
                "        match self.ingest.land(prepared, Landing::OneTable).await {\n",
                """        for (task, prepared) in std::iter::zip(&tasks, &prepared).filter(|_| SWITCH) {
            let JobRun { job, options } = &self.runs[task.job];
            let report = crate::Report { status: crate::report::Status::Committed, ..prepared.report.clone() };
            let content_sha256 = Some(prepared.batch.content_sha256.clone());
            let begun_ms = self.ingest.environment.now_ms();
            let _ = self.ingest.tell(job, options, Settled { report, content_sha256 }, begun_ms).await;
        }
        match self.ingest.land(prepared, Landing::OneTable).await {
""",
            ),
        ),
        (NOTIFY,),
    ),
)
