import { recurrent, type GATES } from './recurrent';
import { batchNorm, type TensorShape, vector } from './tensor-shape';

/** The version of the model. */
export interface DeepSpeech2Options {
  readonly cell: keyof typeof GATES;
  /** In each direction of each recurrent layer. */
  readonly units: number;
  /** Whether the convolutions pad the 161 frequencies. With padding 41 of them are left, without padding 21. */
  readonly padded: boolean;
}

const CHANNELS = 32;
const LAYERS = 5;
const LABELS = 29;

/**
 * Deep Speech 2 (Amodei et al. 2015) like in SeanNaren's deepspeech.pytorch: two convolutions over the spectrogram,
 * five bidirectional recurrent layers whose directions are summed, a batch normalization before each of these layers
 * but the first, and a classifier without bias over 29 letters.
 *
 * The speech model of Lin et al. 2018 has "488 MB". Five GRU layers of 1500 units behind unpadded convolutions, as in
 * the first version of that program, have 127,947,668 parameters, which is 488.08 MiB. So it is probably this model.
 */
export function deepSpeech2({ cell, units, padded }: DeepSpeech2Options): TensorShape[] {
  const tensors = [
    ...convolution(0, [41, 11, 1, CHANNELS]),
    ...convolution(3, [21, 11, CHANNELS, CHANNELS]), // 2 is an activation
  ];
  for (let layer = 0; layer < LAYERS; layer++) {
    const inputs = layer === 0 ? CHANNELS * (padded ? 41 : 21) : units;
    const name = `rnns.${layer}`;
    if (layer > 0) tensors.push(...batchNorm(`${name}.batch_norm.module`, inputs));
    for (const suffix of ['l0', 'l0_reverse']) {
      tensors.push(...recurrent(`${name}.rnn`, suffix, { cell, inputs, units }));
    }
  }
  return [...tensors, ...batchNorm('fc.0.module.0', units), { name: 'fc.0.module.1.weight', shape: [units, LABELS] }];
}

/** A filter (HWIO) with its bias, and the batch normalization that follows. */
function convolution(position: number, shape: readonly [number, number, number, number]): TensorShape[] {
  const outputs = shape[3];
  const name = `conv.seq_module.${position}`;
  return [
    { name: `${name}.weight`, shape },
    vector(`${name}.bias`, outputs),
    ...batchNorm(`conv.seq_module.${position + 1}`, outputs),
  ];
}
