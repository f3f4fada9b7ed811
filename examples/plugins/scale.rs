// demo.scale in Rust: what of plugin.h it uses, by hand; no crate is needed. A panic must not cross the border, so it
// aborts (-C panic=abort): that costs a block, not the run.
use std::ffi::c_void;
use std::os::raw::c_char;

#[repr(C)]
struct Dtype {
    kind: u8,
    reserved: u8,
    bytes: u16,
}

#[repr(C)]
struct View {
    size: u32,
    rank: u16,
    flags: u16,
    dtype: Dtype,
    alignment: u32,
    data: *mut u8,
    shape: *const i64,
    stride_bytes: *const i64,
    origin: *const i64,
    whole: *const i64,
    inner_origin: *const i64,
    inner_shape: *const i64,
}

#[repr(C)]
struct Value {
    size: u32,
    kind: u32,
    count: u64,
    float: f64, // of the union: the parameter is a float
}

#[repr(C)]
struct Call {
    size: u32,
    lanes: u32,
    host: *const c_void,
    host_data: *mut c_void,
    n_in: u32,
    n_out: u32,
    n_param: u32,
    reserved: u32,
    input: *const *const View,
    output: *const *const View,
    param: *const *const Value,
}

type Nothing = Option<unsafe extern "C" fn()>;

#[repr(C)]
struct Function {
    size: u32,
    flags: u32,
    id: *const c_char,
    n_in: u32,
    n_out: u32,
    n_param: u32,
    reserved: u32,
    infer: Nothing,
    regions: Nothing,
    open: Nothing,
    close: Nothing,
    run: Option<unsafe extern "C" fn(*mut c_void, *mut Call) -> i32>,
    init: Nothing,
    accumulate: Nothing,
    merge: Nothing,
    finalize: Nothing,
}
unsafe impl Sync for Function {}

#[repr(C)]
pub struct Hello {
    size: u32,
    major: u32,
    min_minor: u32,
    max_minor: u32,
    host: *const c_void,
}

#[repr(C)]
struct Table([*const Function; 1]);
unsafe impl Sync for Table {}

#[repr(C)]
pub struct Plugin {
    size: u32,
    needs_minor: u32,
    name: *const c_char,
    version: *const c_char,
    n_fn: u32,
    reserved: u32,
    functions: *const Table,
    detach: Nothing,
}
unsafe impl Sync for Plugin {}

const PURE: u32 = 1;
const REENTRANT: u32 = 2;
const OK: i32 = 0;

unsafe extern "C" fn run(_state: *mut c_void, call: *mut Call) -> i32 {
    let (x, y) = (&**(*call).input, &**(*call).output);
    let factor = (**(*call).param).float;
    for i in 0..*x.shape as isize {
        let from = x.data.offset(i * *x.stride_bytes as isize) as *const f64;
        let to = y.data.offset(i * *y.stride_bytes as isize) as *mut f64;
        *to = *from * factor;
    }
    OK
}

static SCALE: Function = Function {
    size: std::mem::size_of::<Function>() as u32,
    flags: PURE | REENTRANT,
    id: b"demo.scale/1\0".as_ptr() as *const c_char,
    n_in: 1,
    n_out: 1,
    n_param: 1,
    reserved: 0,
    infer: None,
    regions: None,
    open: None,
    close: None,
    run: Some(run),
    init: None,
    accumulate: None,
    merge: None,
    finalize: None,
};
static TABLE: Table = Table([&SCALE]);
static PLUGIN: Plugin = Plugin {
    size: std::mem::size_of::<Plugin>() as u32,
    needs_minor: 0,
    name: b"scale\0".as_ptr() as *const c_char,
    version: b"1.0.0\0".as_ptr() as *const c_char,
    n_fn: 1,
    reserved: 0,
    functions: &TABLE,
    detach: None,
};

#[no_mangle]
pub unsafe extern "C" fn cuboid_plugin_v1(hello: *const Hello, why: *mut *const c_char) -> *const Plugin {
    if (*hello).major == 1 {
        return &PLUGIN;
    }
    *why = b"a host of another major version\0".as_ptr() as *const c_char;
    std::ptr::null()
}

const JSON: &[u8] = br#"{"schema":1,"name":"scale","version":"1.0.0","functions":[{"id":"demo.scale/1",
"doc":"Every element times a factor.","signature":"x:f8[n] -> y:f8[n]",
"params":[{"name":"factor","type":"float","default":2,"doc":"What to multiply by."}],
"memory":{"call_bytes":{"expr":"0","trust":"exact"},"outside_bytes":{"expr":"0","trust":"exact"}},
"flags":["pure","reentrant"],"splittable":["n"]}]}"#;

#[repr(C)]
pub struct Blob {
    magic: [u8; 8],
    head_bytes: u32,
    major: u32,
    needs_minor: u32,
    json_bytes: u32,
    json: [u8; JSON.len()],
}

const fn json() -> [u8; JSON.len()] {
    let mut bytes = [0; JSON.len()];
    let mut i = 0;
    while i < JSON.len() {
        bytes[i] = JSON[i];
        i += 1;
    }
    bytes
}

#[used]
#[link_section = ".cuboid"]
static MANIFEST: Blob = Blob {
    magic: *b"CUBOIDM1",
    head_bytes: 24,
    major: 1,
    needs_minor: 0,
    json_bytes: JSON.len() as u32,
    json: json(),
};
