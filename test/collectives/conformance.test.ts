import { testConformance } from './conformance';

// Other rings, and encrypted links: test/slow/conformance.test.ts.
describe('over ipc', () => testConformance({ transport: 'ipc' }, [2]));

describe('over tcp', () => testConformance({ transport: 'tcp', encryption: 'off' }, [3]));
