import { invalidArgument } from '../../errors';

/** @throws GradringError `ERR_INVALID_ARGUMENT` for NCHW, which wasm's forward convolution does not support either. */
export function requireChannelsLast(kernelName: string, dataFormat: string): void {
  if (dataFormat === 'NHWC') return;
  throw invalidArgument(
    `${kernelName} on the wasm backend needs dataFormat 'NHWC' (channels last), not '${dataFormat}'.`,
  );
}
