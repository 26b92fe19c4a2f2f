//! Calls to a node, and what their failures mean: by the code that the live cluster has.

use talos_sim::model::{Code, Content, NodeIndex, Request, Response, Status, StreamId};
use tokio::sync::mpsc;
use upgrade_core::call::{self, Class, Outcome};
use upgrade_engine::io::{IoError, Machine, talos_error};

use super::super::process_io::ProcessIo;
use super::super::{Answer, Inside};
use crate::trace::Act;

/// What a call is for, and so what its failure means.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    Read,
    Act,
    Pull,
    Install,
}

impl For {
    /// What a failure means to the engine, by the code that the live cluster has.
    /// A node that has begun to answer does not refuse.
    pub(super) fn error(self, class: Class, begun: bool, words: &str) -> IoError {
        let outcome = if begun { Outcome::Unknown } else { class.outcome() };
        match self {
            Self::Read => talos_error::read(class, words),
            Self::Act => talos_error::act(class, outcome, words),
            Self::Pull => talos_error::pull(class, words),
            Self::Install => talos_error::install(class, outcome, words),
        }
    }

    /// What a node's refusal means.
    pub(super) fn refused(self, status: &Status, begun: bool) -> IoError {
        self.error(class(status), begun, &status.message)
    }
}

/// What a node's status means, as the client reads it.
fn class(status: &Status) -> Class {
    Class::of(call::Code::of(status.code as i32), &status.message)
}

/// The items of a stream that has to end well.
async fn drain(
    contents: &mut mpsc::UnboundedReceiver<Content>,
    what: For,
    mut item: impl FnMut(Response),
) -> Result<(), IoError> {
    let mut begun = false;
    while let Some(content) = contents.recv().await {
        match content {
            Content::Item(response) => {
                begun = true;
                item(response);
            }
            Content::End(Ok(())) => return Ok(()),
            Content::End(Err(status)) => return Err(what.refused(&status, begun)),
            Content::Drop => break,
        }
    }
    Err(what.error(Class::Broken, begun, "the connection broke"))
}

/// Closes a stream when its reader is gone.
struct Reading<'a> {
    io: &'a ProcessIo,
    stream: StreamId,
    contents: mpsc::UnboundedReceiver<Content>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let stream = self.stream;
        self.io.shared.at(|inside| {
            let now = inside.world.now();
            inside.world.close_stream(now, stream);
        });
    }
}

impl Inside {
    /// A call with one answer.
    pub(super) fn one<T: TryFrom<Response, Error = Status>>(
        &mut self,
        node: NodeIndex,
        request: Request,
    ) -> Result<T, Status> {
        match self.call(node, request)? {
            Answer::Items(mut items) if !items.is_empty() => items.remove(0).try_into(),
            _ => Err(Status { code: Code::Internal, message: "no answer".to_owned() }),
        }
    }
}

impl ProcessIo {
    /// A call that answers with a stream, read to its end.
    pub(super) async fn stream(
        &self,
        (act, what): (Act, For),
        on: &Machine,
        request: Request,
        mut item: impl FnMut(Response) + Send,
    ) -> Result<(), IoError> {
        let machine = on.clone();
        let opened = self
            .act(act, move |inside| {
                let node = inside.reach(&machine)?;
                let answer = inside.call(node, request.clone());
                answer.map_err(|status| what.refused(&status, false))
            })
            .await?;
        match opened {
            Answer::Items(items) => items.into_iter().for_each(&mut item),
            Answer::Stream(stream, contents) => {
                let mut reading = Reading { io: self, stream, contents };
                self.waiting(drain(&mut reading.contents, what, &mut item)).await?;
            }
        }
        Ok(())
    }

    /// A call that answers at once.
    pub(super) async fn unary(
        &self,
        act: Act,
        on: &Machine,
        request: Request,
    ) -> Result<(), IoError> {
        self.stream((act, For::Act), on, request, |_| ()).await
    }
}
