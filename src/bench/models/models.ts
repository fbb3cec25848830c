import { alexnet } from './alexnet';
import { digits16x16 } from './digits-16x16';
import { deepSpeech2 } from './deepspeech2';
import { lstm2x1500 } from './lstm-2x1500';
import { resnet50 } from './resnet50';
import type { TensorShape } from './tensor-shape';
import { vgg16Bn } from './vgg16-bn';

/**
 * The trainable tensors of well-known models, for benchmarks with real shapes. Names and order are those of PyTorch's
 * programs; dimensions are in TensorFlow's order (HWIO, [inputs, outputs]).
 */
export const MODELS = {
  resnet50: resnet50(),
  alexnet: alexnet(),
  'vgg16-bn': vgg16Bn(),
  'lstm-2x1500': lstm2x1500(false),
  /** The language model of Lin et al. 2018, by its size. */
  'lstm-2x1500-tied': lstm2x1500(true),
  /** With 800 units, an earlier default of deepspeech.pytorch, and with LSTM cells and padding, its default now. */
  deepspeech2: deepSpeech2({ cell: 'lstm', units: 800, padded: true }),
  /** The speech model of Lin et al. 2018, by its size. */
  'deepspeech2-gru-1500': deepSpeech2({ cell: 'gru', units: 1500, padded: false }),
  /** The large network of `npm start`. */
  'digits-16x16': digits16x16(),
} as const satisfies Record<string, readonly TensorShape[]>;

/** A name in {@link MODELS}. */
export type ModelName = keyof typeof MODELS;
export const MODEL_NAMES = Object.keys(MODELS) as ModelName[];
