//! How often a caller may send HTTP/2 pings.
//!
//! apid keeps gRPC's usual rule: a ping within five minutes of the last one, with nothing sent to
//! the caller in between, is one too many, and the third such ping ends the connection. Frames are
//! inspected as they pass, because the HTTP/2 library does not report pings.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::clock;

/// gRPC's own default, which apid does not change.
const LEAST_INTERVAL: Duration = Duration::from_mins(5);

/// How many early pings are tolerated.
const FORGIVEN: u32 = 2;

/// The length of a client's preface before its first frame.
const PREFACE: usize = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const ACK: u8 = 1;

/// A frame that ends the connection: code 11, "enhance your calm".
const GO_AWAY: &[u8] = b"\0\0\x16\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\x0btoo_many_pings";

/// Frames of one direction, reassembled from chunks of any size.
#[derive(Debug)]
struct Frames {
    head: [u8; 9],
    filled: usize,
    skip: usize,
}

impl Frames {
    fn after(skip: usize) -> Self {
        Self { head: [0; 9], filled: 0, skip }
    }

    fn is_between(&self) -> bool {
        self.filled == 0 && self.skip == 0
    }

    /// Takes bytes, and calls `frame` for each frame with its type and flags.
    fn pass(&mut self, mut bytes: &[u8], mut frame: impl FnMut(u8, u8)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (self.head.len() - self.filled).min(bytes.len());
            if self.skip > 0 || taken == 0 {
                continue;
            }
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == self.head.len() {
                let [a, b, c, kind, flags, ..] = self.head;
                self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.filled = 0;
                frame(kind, flags);
            }
        }
    }
}

/// Counts the pings of one connection.
#[derive(Debug, Default)]
struct Strikes {
    last: Option<Instant>,
    sent_something: bool,
    count: u32,
}

impl Strikes {
    /// Counts a ping; returns whether it was one too many.
    fn ping(&mut self, now: Instant) -> bool {
        let early = self.last.is_some_and(|last| now < last + LEAST_INTERVAL);
        self.last = Some(now);
        if std::mem::take(&mut self.sent_something) {
            self.count = 0;
        } else if early {
            self.count += 1;
        }
        self.count > FORGIVEN
    }
}

/// A connection whose pings are counted.
#[derive(Debug)]
pub struct Watched<S> {
    stream: S,
    incoming: Frames,
    outgoing: Frames,
    strikes: Strikes,
}

impl<S> Watched<S> {
    /// Wraps a connection on which nothing has been received yet.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            incoming: Frames::after(PREFACE),
            outgoing: Frames::after(0),
            strikes: Strikes::default(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let mut too_many = false;
        this.incoming.pass(&buffer.filled()[before..], |kind, flags| {
            if kind == PING && flags & ACK == 0 {
                too_many |= this.strikes.ping(clock::real_now());
            }
        });
        if too_many {
            if this.outgoing.is_between() {
                // Best effort: without room for it the caller sees the connection close.
                let _ = Pin::new(&mut this.stream).poll_write(context, GO_AWAY);
                let _ = Pin::new(&mut this.stream).poll_flush(context);
            }
            return Poll::Ready(Err(io::Error::other("too many pings")));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.outgoing.pass(&bytes[..written], |kind, _| {
            this.strikes.sent_something |= matches!(kind, DATA | HEADERS);
        });
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_any_pieces() {
        // A preface of two bytes, a ping, empty data, and headers of three bytes.
        let bytes = b"XX\0\0\x08\x06\x01\0\0\0\x00PINGPING\0\0\0\0\0\0\0\0\x01\0\0\x03\x01\x04\0\0\0\x01abc";
        for size in 1..bytes.len() {
            let mut frames = Frames::after(2);
            let mut seen = Vec::new();
            for piece in bytes.chunks(size) {
                frames.pass(piece, |kind, flags| seen.push((kind, flags)));
            }
            assert_eq!(seen, [(PING, ACK), (DATA, 0), (HEADERS, 4)], "pieces of {size}");
            assert!(frames.is_between());
        }
        assert_eq!(GO_AWAY.len(), 9 + 0x16);
    }

    #[test]
    fn early_pings_are_counted_until_something_is_sent() {
        let now = clock::real_now();
        let mut strikes = Strikes::default();
        // The first is never early.
        let pings: Vec<bool> = (0..4).map(|_| strikes.ping(now)).collect();
        assert_eq!(pings, [false, false, false, true]);
        strikes.sent_something = true;
        assert!(!strikes.ping(now) && !strikes.ping(now) && !strikes.ping(now));
        assert!(strikes.ping(now));
        // Pings that keep the rule are never too many.
        let mut strikes = Strikes::default();
        assert!((0..9).all(|n| !strikes.ping(now + LEAST_INTERVAL * n)));
    }
}
