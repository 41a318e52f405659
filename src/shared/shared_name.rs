//! Shared names: the meaning of a name, for sessions that have not used it yet.

/// The longest name, and the longest key format, in bytes. With a longer format, the name is looked
/// up in the catalog each time.
const NAME: usize = hilo_core::name::MAX_LENGTH;
const FORMAT: usize = 48;
/// The most roles with privileges. If more have some, the shared name has none of them.
const GRANTS: usize = 6;
/// In the place of a number of roles: the grants are not known.
const UNKNOWN: u8 = u8::MAX;
/// In the place of a version: no sequence has the name. The worker creates one for the owner while
/// a session waits for it (`hilo.auto_create`).
const CREATE_REQUEST: u64 = u64::MAX;
/// In the place of a length: the sequence has no key format of its own.
const DEFAULT: u8 = u8::MAX;

/// A short text.
#[derive(Clone, Copy)]
#[repr(C)]
struct Text<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> Text<N> {
    const EMPTY: Text<N> = Text { bytes: [0; N], len: 0 };

    /// `None`: it is too long.
    fn new(text: &[u8]) -> Option<Text<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Text { bytes, len: text.len() as u8 })
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// The shared name of a slot, which its lock guards.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SharedName {
    /// The version of the slot with which it is valid, or [`CREATE_REQUEST`]; 0: there is none.
    version: u64,
    owner: u32,
    granted: [(u32, u8); GRANTS],
    grants: u8,
    name: Text<NAME>,
    key_format: Text<FORMAT>,
}

impl Default for SharedName {
    fn default() -> SharedName {
        SharedName {
            version: 0,
            owner: 0,
            granted: Default::default(),
            grants: UNKNOWN,
            name: Text::EMPTY,
            key_format: Text::EMPTY,
        }
    }
}

impl SharedName {
    /// `granted`: the roles with a privilege, as OIDs and sets of bits; `None`: not known. Returns
    /// `None` if something has no room in a shared name.
    pub fn new(
        name: &[u8],
        owner: u32,
        key_format: Option<&str>,
        granted: Option<&[(u32, u8)]>,
    ) -> Option<SharedName> {
        let key_format = match key_format {
            Some(text) => Text::new(text.as_bytes())?,
            None => Text { len: DEFAULT, ..Text::EMPTY },
        };
        let mut shared_name =
            SharedName { owner, key_format, name: Text::new(name)?, ..SharedName::default() };
        if let Some(granted) = granted
            && let Some(room) = shared_name.granted.get_mut(..granted.len())
        {
            room.copy_from_slice(granted);
            shared_name.grants = granted.len() as u8;
        }
        Some(shared_name)
    }

    /// The shared name of a sequence that is to be created.
    pub fn create_request(name: &[u8], owner: u32) -> Option<SharedName> {
        SharedName::new(name, owner, None, None).map(|request| request.at(CREATE_REQUEST))
    }

    pub fn asks_for_creation(&self) -> bool {
        self.version == CREATE_REQUEST
    }

    /// The shared name, valid with this version of the slot.
    pub(super) fn at(self, version: u64) -> SharedName {
        SharedName { version, ..self }
    }

    pub fn name(&self) -> &[u8] {
        self.name.get()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The grants, by role; `None`: not known.
    pub fn grants(&self) -> Option<&[(u32, u8)]> {
        self.granted.get(..self.grants as usize)
    }

    pub fn key_format(&self) -> Option<&str> {
        let text = (self.key_format.len != DEFAULT).then(|| self.key_format.get())?;
        std::str::from_utf8(text).ok()
    }
}
