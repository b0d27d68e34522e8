//! Bodies that can be sent more than once.

use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// How a body is copied, so that it can be sent again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't copy a body of type `{B}`",
    note = "for boxed bodies, such as those of axum, tonic and reqwest, use `Http::new().rebuilding(Body::new)`"
)]
pub trait CopyBody<B> {
    /// A copy, unless the body is larger than `most` bytes or can't be copied.
    ///
    /// The body may be changed, as long as it comes to the same data.
    fn copy(&self, body: &mut B, most: u64) -> Option<B>;
}

/// Clones bodies that can be cloned, and that say how large they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneBody;

impl<B: Body + Clone> CopyBody<B> for CloneBody {
    fn copy(&self, body: &mut B, most: u64) -> Option<B> {
        body.size_hint().upper().is_some_and(|size| size <= most).then(|| body.clone())
    }
}

/// Makes bodies anew of what they had at hand: see [`Http::rebuilding`](super::Http::rebuilding).
#[derive(Clone, Copy)]
pub struct RebuildBody<F> {
    build: F,
}

impl<F> RebuildBody<F> {
    /// Makes bodies by `build`, such as `axum::body::Body::new`.
    pub const fn new(build: F) -> Self {
        Self { build }
    }
}

impl<F> fmt::Debug for RebuildBody<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RebuildBody").finish_non_exhaustive()
    }
}

impl<B, F> CopyBody<B> for RebuildBody<F>
where
    B: Body<Data = Bytes> + Default + Unpin,
    F: Fn(ReplayBody<B>) -> B,
{
    fn copy(&self, body: &mut B, most: u64) -> Option<B> {
        if body.is_end_stream() {
            return Some(B::default());
        }
        if body.size_hint().lower() > most {
            return None;
        }
        let read = ReplayBody::read(mem::take(body), most);
        let copy = read.copy().map(&self.build);
        *body = (self.build)(read);
        copy
    }
}

/// A body of which a part, or all, was read to be kept.
pub struct ReplayBody<B: Body> {
    data: Bytes,
    rest: Rest<B>,
}

/// What follows the data.
enum Rest<B: Body> {
    End,
    Trailers(HeaderMap),
    Error(B::Error),
    /// All that was not at hand.
    Body(B),
}

impl<B: Body<Data = Bytes> + Unpin> ReplayBody<B> {
    /// Reads what is at hand, no further than where it is more than `most`.
    fn read(mut body: B, most: u64) -> Self {
        let mut data = Bytes::new();
        // The body is asked again when it is sent, by somebody whom it can wake.
        let mut cx = Context::from_waker(Waker::noop());
        let rest = loop {
            if data.len() as u64 > most {
                break Rest::Body(body);
            }
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Pending => break Rest::Body(body),
                Poll::Ready(None) => break Rest::End,
                Poll::Ready(Some(Err(error))) => break Rest::Error(error),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(more) if data.is_empty() => data = more,
                    Ok(more) => {
                        let mut joined = BytesMut::from(data);
                        joined.extend_from_slice(&more);
                        data = joined.freeze();
                    }
                    Err(frame) => match frame.into_trailers() {
                        Ok(trailers) => break Rest::Trailers(trailers),
                        Err(_) => break Rest::Body(body),
                    },
                },
            }
        };
        Self { data, rest }
    }

    /// The same again, if all was read.
    fn copy(&self) -> Option<Self> {
        let rest = match &self.rest {
            Rest::End => Rest::End,
            Rest::Trailers(trailers) => Rest::Trailers(trailers.clone()),
            Rest::Error(_) | Rest::Body(_) => return None,
        };
        Some(Self { data: self.data.clone(), rest })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReplayBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if !this.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(mem::take(&mut this.data)))));
        }
        match mem::replace(&mut this.rest, Rest::End) {
            Rest::End => Poll::Ready(None),
            Rest::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Rest::Error(error) => Poll::Ready(Some(Err(error))),
            Rest::Body(mut body) => {
                let polled = Pin::new(&mut body).poll_frame(cx);
                this.rest = Rest::Body(body);
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty()
            && match &self.rest {
                Rest::End => true,
                Rest::Trailers(_) | Rest::Error(_) => false,
                Rest::Body(body) => body.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.data.len() as u64;
        match &self.rest {
            Rest::End => SizeHint::with_exact(read),
            // An exact size would be sent as the length, and what follows the data cut off: the trailers, or the error by
            // which a receiver knows that the data is not whole.
            Rest::Trailers(_) | Rest::Error(_) => at_least(read),
            Rest::Body(body) => {
                let rest = body.size_hint();
                let mut hint = at_least(rest.lower().saturating_add(read));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
                    hint.set_upper(upper);
                }
                hint
            }
        }
    }
}

fn at_least(bytes: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(bytes);
    hint
}

// It holds no reference to itself: what is polled is `Unpin`.
impl<B: Body + Unpin> Unpin for ReplayBody<B> {}

impl<B: Body> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody").field("read", &self.data.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, stream};
    use http_body_util::combinators::BoxBody;
    use http_body_util::{BodyExt, Channel, Empty, Full, StreamBody};

    type Boxed = BoxBody<Bytes, &'static str>;

    fn boxed<B: Body<Data = Bytes, Error = &'static str> + Send + Sync + 'static>(body: B) -> Boxed {
        BoxBody::new(body)
    }

    fn frames(frames: &[&'static str]) -> Boxed {
        let frames: Vec<_> = frames.iter().map(|data| Ok(Frame::data(Bytes::from_static(data.as_bytes())))).collect();
        boxed(StreamBody::new(stream::iter(frames)))
    }

    /// All data and trailers that come without waiting.
    fn all<B: Body<Data = Bytes, Error = &'static str> + Unpin>(
        body: B,
    ) -> Result<(Bytes, Option<HeaderMap>), &'static str> {
        let collected = body.collect().now_or_never().expect("nothing to wait for")?;
        let trailers = collected.trailers().cloned();
        Ok((collected.to_bytes(), trailers))
    }

    fn text(body: Boxed) -> String {
        String::from_utf8(all(body).unwrap().0.to_vec()).unwrap()
    }

    #[test]
    fn bodies_of_known_size_are_cloned_up_to_the_limit() {
        let full = |bytes: usize| Full::new(Bytes::from(vec![0; bytes]));
        assert!(CloneBody.copy(&mut Empty::<Bytes>::new(), 0).is_some());
        assert!(CloneBody.copy(&mut full(8), 8).is_some());
        assert!(CloneBody.copy(&mut full(9), 8).is_none());
        assert!(CloneBody.copy(&mut String::from("four"), 8).is_some());
    }

    #[test]
    fn what_is_at_hand_is_sent_as_often_as_needed() {
        let rebuild = RebuildBody::new(boxed::<ReplayBody<Boxed>>);
        for parts in [&[][..], &["one"], &["one", "", "two"]] {
            let mut body = frames(parts);
            let mut copy = rebuild.copy(&mut body, 6).unwrap();
            let again = rebuild.copy(&mut copy, 6).unwrap();
            for body in [body, copy, again] {
                assert_eq!(body.size_hint().exact(), Some(parts.concat().len() as u64));
                assert_eq!(body.is_end_stream(), parts.is_empty());
                assert_eq!(text(body), parts.concat());
            }
        }
        let mut empty = Boxed::default();
        assert!(rebuild.copy(&mut empty, 0).unwrap().is_end_stream() && empty.is_end_stream());
    }

    #[test]
    fn trailers_are_kept() {
        let rebuild = RebuildBody::new(boxed::<ReplayBody<Boxed>>);
        let mut trailers = HeaderMap::new();
        trailers.insert("sum", http::HeaderValue::from_static("7"));
        let end = trailers.clone();
        let mut body = boxed(Full::from("data").map_err(|never| match never {}).with_trailers(async { Some(Ok(end)) }));
        let copy = rebuild.copy(&mut body, 64).unwrap();
        for body in [body, copy] {
            assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (4, None));
            assert_eq!(all(body).unwrap(), (Bytes::from("data"), Some(trailers.clone())));
        }
    }

    #[test]
    fn what_is_too_large_passes_through_whole() {
        let rebuild = RebuildBody::new(boxed::<ReplayBody<Boxed>>);
        let mut body = frames(&["one", "two", "three"]);
        assert!(rebuild.copy(&mut body, 5).is_none());
        assert_eq!(text(body), "onetwothree");
        // Of known size, it is not even read.
        let mut body = boxed(Full::from("too large").map_err(|never| match never {}));
        assert!(rebuild.copy(&mut body, 5).is_none());
        assert_eq!(text(body), "too large");
    }

    #[test]
    fn what_is_not_at_hand_passes_through_whole() {
        let rebuild = RebuildBody::new(boxed::<ReplayBody<Boxed>>);
        let (mut sender, body) = Channel::<Bytes, &'static str>::new(4);
        sender.try_send(Frame::data(Bytes::from("one"))).unwrap();
        let mut body = boxed(body);
        assert!(rebuild.copy(&mut body, 64).is_none());
        assert!(!body.is_end_stream());
        assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (3, None));
        sender.try_send(Frame::data(Bytes::from("two"))).unwrap();
        drop(sender);
        assert_eq!(text(body), "onetwo");
    }

    #[test]
    fn an_error_comes_where_it_was() {
        let rebuild = RebuildBody::new(boxed::<ReplayBody<Boxed>>);
        let parts = [Ok(Frame::data(Bytes::from("one"))), Err("broken")];
        let mut body = boxed(StreamBody::new(stream::iter(parts)));
        assert!(rebuild.copy(&mut body, 64).is_none());
        assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (3, None));
        assert_eq!(all(body), Err("broken"));
    }
}
