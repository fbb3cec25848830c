import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';

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

const MANIFESTS = [...documentsIn('job.yaml'), jobOfJobSet()];

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

const validators: Record<string, Validator> = {
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

test('the variables of the JobSet say what its controller gives the pods', () => {
  const { replicas, template } = (documentsIn('jobset.yaml') as unknown as JobSet[])[0]!.spec.replicatedJobs[0]!;
  const { env } = template.spec.template.spec.containers[0]!;
  const byName = new Map(env.map(variable => [variable.name, variable]));
  expect(byName.get('WORLD_SIZE')!.value).toBe(String(replicas * template.spec.completions));
  const labelOf = (name: string) => byName.get(name)!.valueFrom!.fieldRef!.fieldPath;
  expect(labelOf('GRADRING_JOB_INDEX')).toBe("metadata.labels['jobset.sigs.k8s.io/job-index']");
  expect(labelOf('GRADRING_JOB_COUNT')).toBe("metadata.labels['jobset.sigs.k8s.io/replicatedjob-replicas']");
});
