import type { Plan } from './plan';

export function violations(plan: Plan, observed: object): string[];
