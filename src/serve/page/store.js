// What the browser keeps: conversations and settings.

const kChats = "anemone.chats", kSettings = "anemone.settings";
export const defaults = { system: "", temperature: 0.7, top_p: 0.95, top_k: 40, min_p: 0.05, max_tokens: 1024, seed: "", schema: "", key: "" };

const read = (key, otherwise) => {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
};
const write = (key, value) => {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Full or forbidden: the page works without.
  }
};

export const settings = { ...defaults, ...read(kSettings, {}) };
export const saveSettings = () => write(kSettings, settings);

export const chats = read(kChats, []);
export const saveChats = () => write(kChats, chats.slice(0, 200));

export function newChat() {
  const chat = { id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), title: "", messages: [] };
  chats.unshift(chat);
  return chat;
}

export function exported(chat) {
  const lines = [`# ${chat.title || "Conversation"}`];
  for (const m of chat.messages) lines.push(`## ${m.role}`, m.content);
  return lines.join("\n\n") + "\n";
}
