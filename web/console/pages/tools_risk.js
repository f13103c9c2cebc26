// What a tool may do, by its own word and by the policy's.
import { html } from '../lib/html.js';
import { Badge } from '../lib/ui.js';

/** How risky a tool says it is. @param {{is: string}} props */
export function Risk({ is }) {
  const kind = { 'read-only': 'good', additive: 'busy', destructive: 'bad' }[is] || 'warn';
  return html`<${Badge} kind=${kind}>${is}<//>`;
}

/** What the policy does with calls of a tool. @param {{policy: {action: string, reason?: string, rule?: string}}} props */
export function Policy({ policy }) {
  if (policy.action === 'allow') return null;
  return html` <span title=${policy.reason + (policy.rule ? ` (${policy.rule})` : '')}><${Badge} kind=${policy.action === 'deny' ? 'bad' : 'warn'}>
    ${policy.action === 'deny' ? 'denied' : 'asks'}<//></span>`;
}
