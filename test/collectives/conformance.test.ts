import { testConformance } from './conformance';

// Larger rings, and encrypted links: test/slow/conformance.test.ts.
describe('over ipc', () => testConformance({ transport: 'ipc' }, [1, 2]));

describe('over tcp', () => testConformance({ transport: 'tcp', encryption: 'off' }, [3]));
