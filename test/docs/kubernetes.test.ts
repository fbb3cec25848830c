import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import Ajv from 'ajv';
import { parseAllDocuments } from 'yaml';
import kubeflowSchemas from './kubeflow-schemas.json';

const FOLDER = path.join(__dirname, '../../docs/kubernetes');
const documentsIn = (file: string) =>
  parseAllDocuments(readFileSync(path.join(FOLDER, file), 'utf8')).map(
    document => document.toJS() as { kind: string; spec: object },
  );

interface JobSet {
  readonly spec: {
    readonly replicatedJobs: readonly {
      readonly replicas: number;
      readonly template: {
        readonly spec: {
          readonly completions: number;
          readonly template: {
            readonly spec: { readonly containers: readonly { readonly env: readonly Variable[] }[] };
          };
        };
      };
    }[];
  };
}

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath: string } };
}

/** The Job of the JobSet: what makes it a JobSet has no published schema here. */
const jobOfJobSet = () => {
  const [jobSet] = documentsIn('jobset.yaml') as unknown as JobSet[];
  return { apiVersion: 'batch/v1', kind: 'Job', ...jobSet!.spec.replicatedJobs[0]!.template };
};

interface TrainingRuntime {
  readonly spec: {
    readonly template: { readonly spec: { readonly replicatedJobs: readonly { readonly template: object }[] } };
  };
}

/** The runtime for TrainJobs, without the Job in it, and that Job. */
const runtimeAndJob = () => {
  const runtime = structuredClone(documentsIn('training-runtime.yaml')[0]!);
  const [node] = (runtime as unknown as TrainingRuntime).spec.template.spec.replicatedJobs;
  const job = { apiVersion: 'batch/v1', kind: 'Job', ...(node!.template as { spec: object }) };
  Object.assign(node!, { template: {} });
  return [runtime, job] as const;
};

const MANIFESTS = [...documentsIn('job.yaml'), jobOfJobSet(), ...runtimeAndJob(), ...documentsIn('trainjob.yaml')];

/** The fields of an object that its validator does not read: Kubernetes would ignore them, or refuse them. */
function unknownFields(manifest: object, validate: (watched: object) => void): string[] {
  const unread = new Set<string>();
  const watch = (value: unknown, at: string): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    const watched: Record<string, unknown> = Array.isArray(value) ? ([] as never) : {};
    for (const [key, field] of Object.entries(value)) {
      const name = `${at}.${key}`;
      unread.add(name);
      const inner = watch(field, name);
      Object.defineProperty(watched, key, {
        enumerable: true,
        get: () => {
          unread.delete(name);
          return inner;
        },
      });
    }
    return watched;
  };
  validate(watch(manifest, '') as object);
  return [...unread];
}

interface Validator {
  (manifest: object): boolean;
  readonly errors: unknown;
}

/** The published schemas of Kubernetes, compiled. */
function validatorOf(name: string): Validator {
  const require = createRequire(__filename);
  const folder = path.dirname(require.resolve('kubernetes-models/package.json'));
  return (require(path.join(folder, '_schemas', `${name}.js`)) as { validate: Validator }).validate;
}

/** What a schema of Kubeflow leaves to Kubernetes, as far as the manifests have it. */
const METADATA = { properties: { name: { type: 'string' }, labels: { additionalProperties: { type: 'string' } } } };

/** The published schemas of Kubeflow Trainer. */
function ofKubeflow(name: 'ClusterTrainingRuntime' | 'TrainJob'): Validator {
  const schema = kubeflowSchemas[name];
  const properties = { ...schema.properties, metadata: METADATA };
  return new Ajv({ format: false }).compile({ ...schema, properties }) as Validator;
}

const validators: Record<string, Validator> = {
  ClusterTrainingRuntime: ofKubeflow('ClusterTrainingRuntime'),
  TrainJob: ofKubeflow('TrainJob'),
  Job: validatorOf('IoK8sApiBatchV1Job'),
  Service: validatorOf('IoK8sApiCoreV1Service'),
  PersistentVolumeClaim: validatorOf('IoK8sApiCoreV1PersistentVolumeClaim'),
};

test.each(MANIFESTS.map(manifest => [manifest.kind, manifest] as const))(
  'the %s is valid, and has no unknown field',
  (kind, manifest) => {
    const validate = validators[kind]!;
    const unknown = unknownFields(manifest, watched => {
      validate(watched);
      expect(validate.errors).toBeNull();
    });
    expect(unknown).toEqual([]);
  },
);

test('a misspelt field is found, and so is a wrong value', () => {
  const job = MANIFESTS.find(({ kind }) => kind === 'Job') as unknown as { spec: object };
  const validate = validators['Job']!;
  const misspelt = { ...job, spec: { ...job.spec, paralellism: 4 } };
  expect(unknownFields(misspelt, watched => validate(watched))).toEqual(['.spec.paralellism']);
  expect(validate({ ...job, spec: { ...job.spec, completions: 'four' } })).toBe(false);
});

test('so they are in what Kubeflow Trainer reads', () => {
  const validate = validators['TrainJob']!;
  const trainJobWith = (trainer: object) => {
    const [trainJob] = documentsIn('trainjob.yaml') as unknown as { spec: { trainer: object } }[];
    Object.assign(trainJob!.spec.trainer, trainer);
    return trainJob!;
  };
  expect(unknownFields(trainJobWith({ numNode: 2 }), watched => validate(watched))).toEqual(['.spec.trainer.numNode']);
  expect(validate(trainJobWith({ numProcPerNode: 'two' }))).toBe(false);
  const [runtime] = runtimeAndJob();
  Object.assign(runtime!.spec, { mlPolicy: { torchrun: {} } });
  const unknown = unknownFields(runtime!, watched => validators['ClusterTrainingRuntime']!(watched));
  expect(unknown).toEqual(['.spec.mlPolicy.torchrun']);
});

test('the TrainJob and its runtime have the names that Kubeflow Trainer looks for', () => {
  const [runtime] = documentsIn('training-runtime.yaml') as unknown as TrainingRuntime[];
  const [trainJob] = documentsIn('trainjob.yaml');
  expect(trainJob).toMatchObject({
    apiVersion: 'trainer.kubeflow.org/v1alpha1',
    spec: { runtimeRef: { name: 'gradring' }, trainer: {} },
  });
  expect(runtime).toMatchObject({
    ...{ apiVersion: 'trainer.kubeflow.org/v1alpha1', metadata: { name: 'gradring' } },
    spec: {
      mlPolicy: { torch: {} },
      template: {
        spec: {
          replicatedJobs: [
            {
              name: 'node',
              template: {
                metadata: { labels: { 'trainer.kubeflow.org/trainjob-ancestor-step': 'trainer' } },
                spec: { template: { spec: { containers: [{ name: 'node' }] } } },
              },
            },
          ],
        },
      },
    },
  });
});

test('the variables of the JobSet say what its controller gives the pods', () => {
  const { replicas, template } = (documentsIn('jobset.yaml') as unknown as JobSet[])[0]!.spec.replicatedJobs[0]!;
  const { env } = template.spec.template.spec.containers[0]!;
  const byName = new Map(env.map(variable => [variable.name, variable]));
  expect(byName.get('WORLD_SIZE')!.value).toBe(String(replicas * template.spec.completions));
  const labelOf = (name: string) => byName.get(name)!.valueFrom!.fieldRef!.fieldPath;
  expect(labelOf('GRADRING_JOB_INDEX')).toBe("metadata.labels['jobset.sigs.k8s.io/job-index']");
  expect(labelOf('GRADRING_JOB_COUNT')).toBe("metadata.labels['jobset.sigs.k8s.io/replicatedjob-replicas']");
});
