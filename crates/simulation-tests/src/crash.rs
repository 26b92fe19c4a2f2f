//! Killing a process at any instant that matters: before or after a journal
//! entry is safe, before or after an act is sent.

use std::sync::Mutex;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

/// A moment in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// An entry is about to be written.
    BeforeWrite,
    /// An entry is safe, and nothing has followed from it.
    AfterWrite,
    /// An act is about to be sent.
    BeforeAct,
    /// It was sent; no answer has come.
    AfterAct,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::BeforeWrite, Self::AfterWrite, Self::BeforeAct, Self::AfterAct];

    /// In plain words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeWrite => "before a journal entry",
            Self::AfterWrite => "after a journal entry",
            Self::BeforeAct => "before an act",
            Self::AfterAct => "after an act",
        }
    }
}

/// Where processes are killed: at the n-th passing of a point, counted over all
/// processes of a run.
#[derive(Debug, Default)]
pub struct Crashes(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    passed: [u32; 4],
    planned: Vec<(Point, u32)>,
    struck: Vec<Point>,
}

impl Crashes {
    /// Kills at these passings.
    pub fn new(planned: Vec<(Point, u32)>) -> Self {
        Self(Mutex::new(Inner { passed: [0; 4], planned, struck: Vec::new() }))
    }

    /// Whether the one who passes here now is killed.
    pub fn strikes(&self, point: Point) -> bool {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = &mut inner.passed[point as usize];
        *passed += 1;
        let now = (point, *passed);
        let strikes = inner.planned.contains(&now);
        if strikes {
            inner.struck.push(point);
        }
        strikes
    }

    /// Where processes were killed.
    pub fn struck(&self) -> Vec<Point> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).struck.clone()
    }
}
