import { testResumedFits, testResumedLoops } from '../tensorflow/resumptions';

describe('a custom loop that is resumed in other processes', () =>
  testResumedLoops(
    ['Nesterov', 'adam', 'RMSProp', 'scatter'],
    ['gradientDropping', 'oneBit', 'ternGrad', 'qsgd', 'lowRank', 'customCompression'],
  ));

describe('model.fit that is resumed in other processes', () =>
  testResumedFits([
    { optimizerName: 'adam', every: undefined, at: { step: 8, epoch: 2, batch: 0 } },
    { optimizerName: 'momentum', every: 4, at: { step: 8, epoch: 2, batch: 0 } }, // at the end of an epoch, after its averages
    { optimizerName: 'adam', every: 3, at: { step: 6, epoch: 1, batch: 2 } },
  ]));
