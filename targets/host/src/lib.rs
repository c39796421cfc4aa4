//! Wires of a Linux host: TUN and AF_PACKET.
