import { type TensorShape, vector } from './tensor-shape';

/** How many gates, and so matrices side by side in one tensor, a recurrent cell has. */
export const GATES = { lstm: 4, gru: 3 } as const;

/** What a recurrent layer is made of. */
export interface RecurrentLayer {
  readonly cell: keyof typeof GATES;
  readonly inputs: number;
  readonly units: number;
}

/**
 * One direction of a recurrent layer as cuDNN and PyTorch have it: all gates in one tensor, the weights here as
 * [inputs, gates · units], and two biases, of which one would do.
 *
 * @param suffix PyTorch's, such as `l0` or `l0_reverse`.
 */
export function recurrent(name: string, suffix: string, { cell, inputs, units }: RecurrentLayer): TensorShape[] {
  const width = GATES[cell] * units;
  return [
    { name: `${name}.weight_ih_${suffix}`, shape: [inputs, width] },
    { name: `${name}.weight_hh_${suffix}`, shape: [units, width] },
    vector(`${name}.bias_ih_${suffix}`, width),
    vector(`${name}.bias_hh_${suffix}`, width),
  ];
}
