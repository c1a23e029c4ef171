// A button with a panel below it. Escape and a click outside close it; focus goes back to the button.

import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface PopoverProps {
  /** Open state, when the caller needs to open it too. */
  open?: Signal<boolean>;
  label: string;
  button: ComponentChildren;
  class?: string;
  testid: string;
  align?: 'left' | 'right';
  children: (close: () => void) => ComponentChildren;
}

export function Popover(p: PopoverProps) {
  const own = useSignal(false);
  const open = p.open ?? own;
  const root = useRef<HTMLDivElement>(null);
  const trigger = useRef<HTMLButtonElement>(null);
  const close = () => {
    open.value = false;
    trigger.current?.focus();
  };
  const isOpen = open.value;
  useEffect(() => {
    if (!isOpen) return;
    const outside = (e: Event) => {
      if (!root.current?.contains(e.target as Node)) open.value = false;
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [isOpen, open]);
  const key = (e: KeyboardEvent) => {
    if (e.key === 'Escape' && open.value) {
      e.stopPropagation();
      close();
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: only listens for Escape from what is inside
    <div class={`popover ${p.class ?? ''}`} ref={root} onKeyDown={key}>
      <button
        ref={trigger}
        type="button"
        class="button"
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        aria-label={p.label}
        data-testid={p.testid}
        onClick={() => {
          open.value = !open.value;
        }}
      >
        {p.button}
      </button>
      {isOpen && (
        <div class={`popover-panel ${p.align === 'right' ? 'popover-right' : ''}`} role="dialog" aria-label={p.label}>
          {p.children(close)}
        </div>
      )}
    </div>
  );
}
