import { testProcesses } from '../communicator/process-ends';

testProcesses('tcp');
