//! A network that loses, delays and doubles what goes over it, for the processes of a scenario.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hexfloe_catalog::{CatalogKind, CatalogSettings};

use crate::proxy::{Answer, Fault, Proxy, Reply, Request, Rule, Server, Side};
use crate::random::Random;

/// Of a thousand requests so many fail.
const FAILURES: u32 = 120;

/// Whether anything of a lake is spoken to over HTTP.
pub(crate) fn is_across_http(settings: &CatalogSettings) -> bool {
    settings.kind == CatalogKind::Rest || settings.warehouse.contains("://") && !settings.warehouse.starts_with("file:")
}

/// See the module.
pub(crate) struct BadNetwork {
    state: Arc<State>,
}

struct State {
    is_bad: AtomicBool,
    drawn: Mutex<Drawn>,
}

struct Drawn {
    random: Random,
    failed: Vec<String>,
}

impl State {
    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a request, if it fails.
    fn draw(&self, request: &Request) -> Option<(Side, Fault)> {
        if !self.is_bad.load(Ordering::Relaxed) {
            return None;
        }
        let mut drawn = self.drawn();
        // A commit is what there is the most to learn from.
        let chance = if request.is_commit() { 4 * FAILURES } else { FAILURES };
        if !drawn.random.chance(chance) {
            return None;
        }
        let side = drawn.random.pick([Side::Before, Side::After]);
        let fault =
            drawn.random.pick([Fault::Reset, Fault::Status(500), Fault::Status(503), Fault::Duplicate, Fault::Reset]);
        let when = match side {
            Side::Before => "before it arrives",
            Side::After => "when it has been done",
        };
        let path = request.path.split('?').next().unwrap_or_default();
        drawn.failed.push(format!("{} {path}: {fault:?} {when}", request.method));
        Some((side, fault))
    }
}

impl BadNetwork {
    /// What goes through `proxy` is failed as `random` has it, while the network is bad.
    pub(crate) fn new(proxy: &Proxy, random: Random) -> Self {
        let drawn = Mutex::new(Drawn { random, failed: Vec::new() });
        let state = Arc::new(State { is_bad: AtomicBool::new(false), drawn });
        let deciding = Arc::clone(&state);
        proxy.add(Rule::new(
            |_| true,
            move |request: &Request, server: &Server| match deciding.draw(request) {
                Some((side, fault)) => server.fault(request, side, fault),
                // What is encrypted is passed on by the proxy itself.
                None if request.method == "CONNECT" => Reply::Answer(Answer::error(200)),
                None => server.forward(request).map_or(Reply::Reset, Reply::Answer),
            },
        ));
        Self { state }
    }

    /// Has it be bad, or good.
    pub(crate) fn is_bad(&self, is_bad: bool) {
        self.state.is_bad.store(is_bad, Ordering::Relaxed);
    }

    /// What has failed since this was last asked.
    pub(crate) fn failed(&self) -> Vec<String> {
        std::mem::take(&mut self.state.drawn().failed)
    }
}
