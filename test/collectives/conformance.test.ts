import { testConformance } from './conformance';

describe('over ipc', () => testConformance({ transport: 'ipc' }, [1, 2, 5]));

describe('over tcp', () => testConformance({ transport: 'tcp', encryption: 'off' }, [3]));
