//! Verbs on a tokio runtime: calls that only lock, and futures of completions.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::{CompletionQueue, Verbs, VerbsError, WorkCompletion};
use crate::network::Network;

impl Network {
    /// Runs a closure that calls verbs, all at one moment; the work that it posts leaves at once. The closure
    /// must not block, because the network does no other work meanwhile.
    ///
    /// ```no_run
    /// # use hawser_sockets::verbs::{CompletionQueue, QueuePair, SendRequest, VerbsError};
    /// # async fn run(network: hawser_sockets::Network, pair: QueuePair, queue: CompletionQueue, request: SendRequest)
    /// # -> Result<(), VerbsError> {
    /// network.verbs(|verbs| verbs.post_send(pair, &request))?;
    /// let completion = network.completion(queue).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the error of the closure, [`VerbsError::Ended`], or [`VerbsError::Unsupported`] if the program
    /// accepts no work on registered memory.
    pub fn verbs<T>(
        &self,
        act: impl FnOnce(&mut Verbs<'_>) -> Result<T, VerbsError>,
    ) -> Result<T, VerbsError> {
        let mut inner = self.shared.lock();
        inner.ended().map_or(Ok(()), Err)?;
        let result = act(&mut inner.endpoint.verbs()?);
        drop(inner);
        self.shared.kick();
        result
    }

    /// Waits for the next completion of a queue. Several tasks may wait, and each completion goes to one of
    /// them; dropping the future loses no completion. Completions that arrived before the network ended, or
    /// before their pair was destroyed, are still returned. A queue whose pairs are all destroyed gets no
    /// more completions.
    ///
    /// # Errors
    /// Returns [`VerbsError::Ended`], or [`VerbsError::Gone`] for a queue of another network.
    pub async fn completion(&self, queue: CompletionQueue) -> Result<WorkCompletion, VerbsError> {
        poll_fn(|cx| self.poll_completion(queue, cx)).await
    }

    /// Waits until a queue has completions and appends all of them, in their order, to `into`.
    ///
    /// # Errors
    /// As [`Network::completion`].
    pub async fn completions(
        &self,
        queue: CompletionQueue,
        into: &mut Vec<WorkCompletion>,
    ) -> Result<(), VerbsError> {
        into.push(self.completion(queue).await?);
        let mut inner = self.shared.lock();
        let mut verbs = inner.endpoint.verbs()?;
        into.extend(std::iter::from_fn(|| verbs.poll(queue)));
        Ok(())
    }

    fn poll_completion(
        &self,
        queue: CompletionQueue,
        cx: &mut Context<'_>,
    ) -> Poll<Result<WorkCompletion, VerbsError>> {
        let mut inner = self.shared.lock();
        let mut verbs = inner.endpoint.verbs()?;
        verbs.waiting(queue)?;
        if let Some(completion) = verbs.poll(queue) {
            return Poll::Ready(Ok(completion));
        }
        if let Some(end) = inner.ended() {
            return Poll::Ready(Err(end));
        }
        inner.completion_wakers.add(queue, cx.waker());
        Poll::Pending
    }
}
