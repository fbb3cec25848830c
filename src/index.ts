export { GradringError, type ErrorCode, type ErrorDetails } from './errors';
export { Communicator } from './communicator/communicator';
