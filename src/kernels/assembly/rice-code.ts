/** After this many ones, the quotient itself follows. */
export const ESCAPE: u32 = 20;

/**
 * This many bits fit into eight bytes behind the 7 bits that the first byte may already have. One bit must stay free:
 * otherwise the stream could go on in a byte that was not written, or a register of 64 bits could be shifted by 64.
 */
export const MOST_BITS: u64 = 56;
