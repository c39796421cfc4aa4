//! The layered framings of a Connection.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{Framer, Framing, FramingError, MessagePart};
use crate::taps::MessageContext;

/// The framings of one Connection, the one next to the transport first. Without framings, all received data
/// is one message.
pub(crate) struct Stack {
    layers: Vec<Layer>,
}

struct Layer {
    framing: Box<dyn Framing>,
    input: BytesMut,
}

impl Stack {
    pub(crate) fn new(framers: &[Arc<dyn Framer>]) -> Stack {
        let layer = |framer: &Arc<dyn Framer>| Layer { framing: framer.start(), input: BytesMut::new() };
        Stack { layers: framers.iter().map(layer).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the data to send before any message.
    pub(crate) fn greeting(&mut self) -> Result<Vec<Bytes>, FramingError> {
        let mut all = Vec::new();
        let context = MessageContext::new();
        for place in 0..self.layers.len() {
            let greeting = self.layers[place].framing.greeting();
            if !greeting.is_empty() {
                let part = MessagePart { data: greeting, is_end: true };
                all.append(&mut encode(&mut self.layers[..place], part, &context)?);
            }
        }
        Ok(all)
    }

    /// Encodes a part of a message for the transport.
    pub(crate) fn encode(
        &mut self,
        part: MessagePart,
        context: &MessageContext,
    ) -> Result<Vec<Bytes>, FramingError> {
        encode(&mut self.layers, part, context)
    }

    /// Takes data that the transport received.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(layer) = self.layers.first_mut() {
            layer.input.extend_from_slice(bytes);
        }
    }

    /// Decodes the next part of a message; `None` if more bytes are needed.
    pub(crate) fn decode(
        &mut self,
        context: &mut MessageContext,
    ) -> Result<Option<MessagePart>, FramingError> {
        decode(&mut self.layers, context)
    }

    /// Returns the number of bytes buffered until they make a part.
    pub(crate) fn kept(&self) -> usize {
        self.layers.iter().map(|layer| layer.input.len()).sum()
    }
}

/// Encodes through the layers: the last layer is the first to see sent data.
fn encode(
    layers: &mut [Layer],
    part: MessagePart,
    context: &MessageContext,
) -> Result<Vec<Bytes>, FramingError> {
    let Some((last, below)) = layers.split_last_mut() else {
        return Ok(vec![part.data]);
    };
    let is_end = part.is_end;
    let mut out = Vec::new();
    last.framing.encode(part, context, &mut out)?;
    if below.is_empty() {
        return Ok(out);
    }
    // The output of one framing for a message is one message for the next.
    let count = out.len();
    let mut all = Vec::new();
    for (place, data) in out.into_iter().enumerate() {
        let part = MessagePart { data, is_end: is_end && place + 1 == count };
        all.append(&mut encode(below, part, context)?);
    }
    Ok(all)
}

/// Decodes through the layers: the last layer is the last to see received data.
fn decode(layers: &mut [Layer], context: &mut MessageContext) -> Result<Option<MessagePart>, FramingError> {
    let Some((last, below)) = layers.split_last_mut() else {
        return Ok(None);
    };
    loop {
        if let Some(part) = last.framing.decode(&mut last.input, context)? {
            return Ok(Some(part));
        }
        match decode(below, context)? {
            Some(part) => last.input.extend_from_slice(&part.data),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LengthPrefix;
    use super::*;

    #[test]
    fn framers_can_be_stacked() {
        let framers: Vec<Arc<dyn Framer>> =
            vec![Arc::new(LengthPrefix::new(100)), Arc::new(LengthPrefix::new(10))];
        let mut stack = Stack::new(&framers);
        let mut context = MessageContext::new();
        let part = MessagePart { data: Bytes::from_static(b"hello"), is_end: true };
        let sent = stack.encode(part.clone(), &context).expect("it fits").concat();
        assert_eq!(
            sent, b"\0\0\0\x09\0\0\0\x05hello",
            "the one added last is nearest to the message"
        );
        for byte in &sent[..sent.len() - 1] {
            stack.push(&[*byte]);
        }
        let mut got = Vec::new();
        while let Some(part) = stack.decode(&mut context).expect("it is well formed") {
            assert!(!part.is_end);
            got.extend_from_slice(&part.data);
        }
        stack.push(b"o");
        let last = stack
            .decode(&mut context)
            .expect("it is well formed")
            .expect("the end");
        got.extend_from_slice(&last.data);
        assert_eq!((got, last.is_end), (b"hello".to_vec(), true));
    }
}
