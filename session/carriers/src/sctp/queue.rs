//! A queue of byte pieces, from which a transport takes as many bytes as it has room for.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

/// Takes `count` bytes off the front of `queue`.
pub(crate) fn take(queue: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(front) = queue.front_mut() {
        if front.len() > count {
            front.advance(count);
            return;
        }
        count -= front.len();
        queue.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_bytes_crosses_pieces() {
        let mut queue: VecDeque<Bytes> = ["abc", "", "def", "g"].map(Bytes::from).into();
        take(&mut queue, 4);
        assert_eq!(queue, ["ef", "g"]);
        take(&mut queue, 3);
        assert!(queue.is_empty());
    }
}
