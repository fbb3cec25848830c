import type { Argv, CommandModule } from 'yargs';
import { invalidArgument } from '../errors';
import { checkLink, type LinkState, linkTensorFlow, undoLink } from './link-tensorflow';
import { PACKAGES, type PackageName } from './npm-package';

/** `gradring link-tensorflow`. The exit code is 1 if the package does not work afterwards. */
export const linkCommand: CommandModule = {
  command: 'link-tensorflow',
  describe: 'Build TensorFlow.js for Node against a TensorFlow of this machine',
  builder: (yargs: Argv) =>
    yargs
      .usage('$0 link-tensorflow [options]\n\nBuilds TensorFlow.js for Node against a TensorFlow of this machine.')
      .options({
        from: {
          type: 'string',
          requiresArg: true,
          default: 'auto',
          describe:
            'An unpacked libtensorflow, or a Python environment (or its tensorflow folder); auto looks for one, or lets pip fetch tensorflow-cpu',
        },
        package: { choices: PACKAGES, default: 'tfjs-node-gpu', describe: 'The npm package to build' },
        check: { type: 'boolean', default: false, describe: 'Only show the current state' },
        undo: {
          type: 'boolean',
          default: false,
          describe: 'Remove the link; a TensorFlow that was downloaded stays, for other projects',
        },
        json: { type: 'boolean', default: false, describe: 'Print the result as one JSON object' },
      })
      .example('$0 link-tensorflow', 'link the TensorFlow of this machine, or fetch one')
      .example('$0 link-tensorflow --from ~/venv', 'link the TensorFlow of a Python environment')
      .example('$0 link-tensorflow --from ~/libtensorflow-2.18', 'link an unpacked libtensorflow')
      .example('$0 link-tensorflow --check --json', 'show the current state, for programs')
      .epilogue(
        'Use it if the install script of @tensorflow/tfjs-node(-gpu) cannot download its libtensorflow 2.9.1, or if that is too ' +
          'old for the GPU. Libraries are linked, not copied. npm ci and npm install remove the link: run this again after them.',
      ),
  handler: async parsed => {
    const name = parsed['package'] as PackageName;
    if (parsed['check'] && parsed['undo']) throw invalidArgument('--check and --undo exclude each other.');
    if (parsed['undo']) {
      const { removed, kept } = undoLink(name);
      if (parsed['json']) console.log(JSON.stringify({ package: name, removed, kept }));
      else {
        console.log(removed.length > 0 ? `Removed ${removed.join(' and ')}.` : `@tensorflow/${name} is not linked.`);
        if (kept !== undefined) console.log(`${kept} stays: other projects may be linked to it.`);
      }
      return;
    }
    const state = parsed['check']
      ? await checkLink(name)
      : await linkTensorFlow({ package: name, from: parsed['from'] as string, say: line => console.error(line) });
    console.log(parsed['json'] ? JSON.stringify(state) : describe(state));
    if (state.proof === undefined) process.exitCode = 1;
  },
};

/** The state in words. */
export function describe({ package: name, state, relink, libTensorFlow, proof, failure }: LinkState): string {
  const full = `@tensorflow/${name}`;
  if (state === 'link lost')
    return `${full} was linked to a TensorFlow, but npm has removed the link. To link it again: ${relink}`;
  if (state === 'not installed')
    return `${full} is not installed. npx gradring link-tensorflow --package ${name} installs and links it.`;
  if (state === 'no binding')
    return `${full} is installed without its binding. npx gradring link-tensorflow --package ${name} builds it.`;
  if (state === 'refused') return `${full} is refused: ${failure}`;
  const what =
    libTensorFlow === undefined
      ? "npm's own libtensorflow"
      : `${libTensorFlow.libraryDirectory}${cuda(libTensorFlow.isCuda)}`;
  if (proof === undefined) return `${full} is ${state}, on ${what}, but does not work: ${failure}`;
  const { version, device, gigaflops, error } = proof;
  return `${full} works: TensorFlow ${version} on the ${device}, from ${what}; ${gigaflops} GFLOP/s in a matrix product, error of a convolution's gradient ${error.toExponential(0)}.`;
}

function cuda(isCuda: boolean | undefined): string {
  if (isCuda === undefined) return '';
  return isCuda ? ' (built with CUDA)' : ' (built for the CPU)';
}
