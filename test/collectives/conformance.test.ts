import { testConformance } from './conformance';

// Other rings, encrypted links, and reductions of all types in a ring of three: test/slow/conformance.test.ts.
describe('over ipc', () => testConformance({ transport: 'ipc' }, [2]));

describe('over tcp', () =>
  testConformance({ transport: 'tcp', encryption: 'off' }, [3], ['float32', 'bfloat16', 'int64']));
