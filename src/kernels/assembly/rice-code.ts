/** So many ones mean: what follows is the quotient itself. */
export const ESCAPE: u32 = 20;

/**
 * So many bits fit into eight bytes behind the 7 that may stand in the first of them. One bit must stay free, lest the
 * stream go on in a byte that was not written, or a register of 64 bits be shifted by 64.
 */
export const MOST_BITS: u64 = 56;
