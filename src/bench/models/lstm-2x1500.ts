import { recurrent } from './recurrent';
import { type TensorShape, vector } from './tensor-shape';

const WORDS = 10_000;
const UNITS = 1500;

/**
 * The large word-level language model for the Penn Treebank (Zaremba et al. 2014): an embedding, two LSTM layers of
 * 1500 units, and a softmax over 10,000 words. Each layer has two biases, like in PyTorch's `word_language_model`
 * example.
 *
 * @param tied Whether the softmax uses the matrix of the embedding (`--tied`). If not, the model has 66,034,000
 *   parameters in 11 tensors. If so, it has 51,034,000 in 10: the 194.68 MiB that Lin et al. 2018 compress.
 */
export function lstm2x1500(tied: boolean): TensorShape[] {
  const layers = [0, 1].flatMap(layer => recurrent('rnn', `l${layer}`, { cell: 'lstm', inputs: UNITS, units: UNITS }));
  return [
    { name: 'encoder.weight', shape: [WORDS, UNITS] },
    ...layers,
    ...(tied ? [] : [{ name: 'decoder.weight', shape: [UNITS, WORDS] }]),
    vector('decoder.bias', WORDS),
  ];
}
