import { expectAllTraining } from './support/training-tests';

test('the training tests pass on wasm', () => expectAllTraining('wasm'), 900_000);
