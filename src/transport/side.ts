/** One of a rank's two neighbours. In a ring of two they are the same rank, over two links. */
export type Side = 'left' | 'right';

export const SIDES = ['left', 'right'] as const;

export function opposite(side: Side): Side {
  return side === 'left' ? 'right' : 'left';
}
