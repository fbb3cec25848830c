import { testConformance } from '../collectives/conformance';

describe('over ipc', () => testConformance({ transport: 'ipc' }, [1, 5]));

describe('over tcp', () => testConformance({ transport: 'tcp', encryption: 'off' }, [2, 3, 5]));

describe('over encrypted links', () =>
  testConformance({ transport: 'tcp', encryption: 'on', runToken: 'ab'.repeat(32) }, [3]));
