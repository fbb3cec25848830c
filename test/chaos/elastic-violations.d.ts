import type { Plan } from './plan';

export function elasticViolations(plan: Plan, observed: object): string[];
